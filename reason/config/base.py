"""The common parent of every room's config."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, field_validator

from reason.errors import has_controls, printable

PLAIN = r"^\w[\w.-]{0,99}$"  # the name of a folder, and no way out of it


class BaseConfig(BaseModel):
    """Settings of one room: immutable, unknown keys refused, defaults checked, no inf or NaN."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False)

    @field_validator("*")
    @classmethod
    def _bounded(cls, value: Any) -> Any:
        if isinstance(value, int) and abs(value) >= 2**63:
            raise ValueError("a whole number of at most 63 bits is needed")
        if isinstance(value, str) and has_controls(value):
            raise ValueError(f"{printable(value)} holds control characters; leave them out")
        return value
