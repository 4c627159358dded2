"""Settings of an evaluation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from pydantic import Field, model_validator

from reason.settings.base import PLAIN, BaseConfig, Need, TabledConfig

if TYPE_CHECKING:
    from reason.config.schema import Config


class Study(NamedTuple):
    """A measurement that is made where `evaluation.NAME=true` asks for it.

    `settings` are further ones of the section `evaluation`. Where NAME is among them, it need not be a yes or no: the
    study is made where it has another value than its default.
    """

    description: str
    needs: Callable[[Config], Iterable[Need]] = lambda config: ()
    undecimated: bool = False  # does it read steps of a puzzle that stays as it is?
    settings: type[BaseConfig] = BaseConfig


STUDIES: dict[str, Study] = {}  # by name, which is the setting; extensions and files of one's own add theirs


class EvaluationConfig(TabledConfig):
    """How a trained model is read: one pass always, and the studies of STUDIES where asked, at their cost."""

    steps: int | None = Field(
        None,
        ge=1,
        le=100_000,
        description="T, number of supervision steps (short form: steps=T); none: twice the number in training, more "
        "for larger boards and with decimation",
    )
    decimation: Annotated[int, Field(ge=1)] | Literal["auto"] | None = Field(
        "auto",
        description="K: after every K steps the most certain undecided cell becomes a clue, and the puzzle restarts "
        "from the initial state; if the clues lead to no answer that satisfies the rules, they are removed; auto: "
        "N_super if puzzles may have several solutions, otherwise none",
    )
    split: str = Field("test", pattern=PLAIN, description="which split of the data set")
    batch_size: int = Field(256, ge=1, description="puzzles per batch; results change only by rounding")
    compile: Literal["auto", "none", "inductor"] = Field(
        "auto",
        description="torch.compile of the network calls; results change only by rounding; auto: inductor if it works "
        "and the evaluation takes minutes",
    )
    weights: Literal["auto", "ema", "raw"] = Field("auto", description="auto: the EMA if the run has one, else raw")
    checkpoint: Literal["newest", "best"] = Field(
        "newest", description="best: the checkpoint with the highest validation accuracy in training"
    )
    limit: int | None = Field(None, ge=1, description="evaluate only this many puzzles, the first of the split")

    @classmethod
    def entries(cls) -> Mapping[str, Study]:
        """The studies."""
        return STUDIES

    @classmethod
    def fields_of(cls, name: str, study: Study) -> dict[str, tuple[Any, Any]]:
        """Whether the study is made, and its own settings."""
        own = {key: (field.annotation, field) for key, field in study.settings.model_fields.items()}
        return {name: (bool, Field(False, description=study.description)), **own}

    @property
    def studies(self) -> list[str]:
        """The names of the studies that are made."""
        fields = self.settings()
        return [name for name in STUDIES if getattr(self, name) != fields[name].default]

    @model_validator(mode="after")
    def _steps_without_decimation(self) -> EvaluationConfig:
        if isinstance(self.decimation, int) and self._undecimated:
            name = self._undecimated[0]
            raise ValueError(
                f"{name}=true reads steps of a puzzle that stays as it is: type evaluation.decimation=none, or "
                f"evaluation.{name}=false"
            )
        return self

    @property
    def _undecimated(self) -> list[str]:
        return [name for name in self.studies if STUDIES[name].undecimated]

    def decimated_every(self, several: bool, trained_steps: int) -> int | None:
        """Steps between decimations, None: no decimation. several: may the puzzles have several solutions?"""
        if self.decimation == "auto":
            return trained_steps if several and not self._undecimated else None
        return self.decimation
