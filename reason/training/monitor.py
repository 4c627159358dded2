"""Validation accuracy during training, which selects the best checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from pydantic import Field

from reason.data import PuzzleData
from reason.models.base import Reasoner
from reason.settings.base import BaseConfig
from reason.training.ema import Ema


class MonitorConfig(BaseConfig):
    """Validation during training: how many puzzles, how often."""

    every: int | None = Field(
        None, ge=1, description="optimizer steps between validations; none: training.checkpoint_every"
    )
    puzzles: int = Field(
        512,
        ge=0,
        description="number of puzzles, the first of the validation split; 0, or no validation split: no validation",
    )


@dataclass(frozen=True)
class Reading:
    """Accuracy of the averaged weights after the trained steps (N_super; T of a looped model), without halting."""

    step: int  # optimizer steps
    exact: float  # share of puzzles whose every labelled cell is right
    cell: float  # mean over puzzles of the share of labelled cells that are right
    puzzles: int
    seconds: float

    def beats(self, other: Reading | None) -> bool:
        """Higher exact accuracy, then higher cell accuracy; a tie keeps the earlier (ours)."""
        return other is None or (self.exact, self.cell) > (other.exact, other.cell)


class Monitor(Protocol):
    """Validation during training (reason/evaluation/monitor.py); training imports no evaluation."""

    @property
    def sets(self) -> Sequence[PuzzleData]:
        """The splits that are read, one of each set."""

    def read(self, model: Reasoner, ema: Ema | None, step: int) -> Reading:
        """Accuracy at optimizer step `step`, of the averaged weights where the run has them."""
