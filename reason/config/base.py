"""The base class of every section of a config."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class BaseConfig(BaseModel):
    """A pydantic model: immutable, unknown keys refused, defaults validated, no inf or NaN."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False)
