"""The common parent of every room's config."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class BaseConfig(BaseModel):
    """Settings of one room: immutable, unknown keys refused, defaults checked, no inf or NaN."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False)
