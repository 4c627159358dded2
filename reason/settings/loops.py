"""T, the number of loops of a backward pass (docs/math.md §8)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from reason.settings.base import BaseConfig


class LoopsConfig(BaseConfig):
    """T: how often the model steps in one backward pass, and which of those steps are read out."""

    count: int = Field(1, ge=1, le=10_000, description="T")
    supervision: Literal["terminal", "per-loop"] = Field(
        "terminal", description="states that are scored: terminal: the last; per-loop: all T, their losses averaged"
    )

    @property
    def several(self) -> str | None:
        """The setting by which T may be above 1; None: it is 1."""
        return f"count={self.count}" if self.count > 1 else None

    def draw(self, seed: int, index: int, step: int) -> int:
        """T of backward pass number `index`, in optimizer step `step`, both counted from 0."""
        return self.count

    @property
    def typical(self) -> int:
        """The T that a run is said to be trained for."""
        return self.count

    @property
    def most(self) -> int:
        """The largest T."""
        return self.count
