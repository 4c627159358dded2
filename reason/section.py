"""The common parent of every room's config."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """Settings of one room: immutable, unknown keys refused, defaults checked like given values."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)


class ConfigError(ValueError):
    """A setting that cannot be: the text says what was got, what is allowed and what to type."""
