"""What may be read back of a results.json that anyone may have written."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from reason.errors import ConfigError, printable

Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0, lt=2**63)]
Positive = Annotated[int, Field(ge=1, lt=2**63)]


class Compared(BaseModel):
    """The fields of an evaluation that are put beside those of others; the rest is not looked at."""

    model_config = ConfigDict(extra="ignore", strict=True, allow_inf_nan=False)

    run: str
    preset: str
    dataset: str
    split: str
    steps: Positive
    trained_steps: Positive
    checkpoint_step: Count
    parameters: Count
    puzzles: Positive
    exact_by_step: list[Share]
    cell_by_step: list[Share]
    valid_by_step: list[Share] | None = None

    @model_validator(mode="after")
    def _a_share_a_step(self) -> Compared:
        for name in ("exact_by_step", "cell_by_step", "valid_by_step"):
            shares = getattr(self, name)
            if shares is not None and len(shares) != self.steps:
                raise ValueError(f"{name} has {len(shares)} shares for {self.steps} steps")
        return self


def compared(results: Any) -> dict[str, Any]:
    """Those fields of what a results.json holds, texts on one line.

    Raises:
        ConfigError: one is missing, or of another kind.
    """
    try:
        read = Compared.model_validate(results)
    except ValidationError as error:
        first = error.errors()[0]
        message = first["msg"].removeprefix("Value error, ")
        where = ".".join(map(str, first["loc"]))
        raise ConfigError(f"{where}: {message[:1].lower()}{message[1:]}" if where else message) from None
    return {key: printable(value) if isinstance(value, str) else value for key, value in read.model_dump().items()}
