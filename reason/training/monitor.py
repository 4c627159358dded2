"""Readings on puzzles that are not trained on, which choose the best checkpoint: their settings and their record."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Protocol

from pydantic import Field, field_validator

from reason.config.base import BaseConfig
from reason.models.base import Reasoner
from reason.training.ema import Ema


class MonitorConfig(BaseConfig):
    """Which puzzles are read during training, how many and how often."""

    split: str = Field("validation", description="the split that is read; without it in the set nothing is")
    every: int | None = Field(
        None, ge=1, description="optimizer steps between readings; none: training.checkpoint_every"
    )
    puzzles: int = Field(512, ge=0, description="at most so many, the split's first; 0: no readings")

    @field_validator("split")
    @classmethod
    def _not_the_test(cls, split: str) -> str:
        if split == "test":
            raise ValueError("the test split would choose what it later judges: type training.monitor.split=validation")
        return split


@dataclass(frozen=True)
class Reading:
    """Accuracy of the averaged weights after the trained steps (N_super; of a looped model T), nothing halting."""

    step: int  # optimizer steps
    exact: float  # share of puzzles whose every labelled cell is right
    cell: float  # mean over puzzles of the share of labelled cells that are right
    puzzles: int
    seconds: float

    def beats(self, other: Reading | None) -> bool:
        """More puzzles right, or as many and more cells; a tie keeps the earlier (ours)."""
        return other is None or (self.exact, self.cell) > (other.exact, other.cell)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


class Monitor(Protocol):
    """What reads accuracy during training (reason/evaluation/monitor.py): training imports no evaluation."""

    def read(self, model: Reasoner, ema: Ema | None, step: int) -> Reading:
        """Accuracy at optimizer step `step`, of the averages where the run keeps them."""
