"""Validation accuracy during training, which selects the best checkpoint."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from pydantic import Field, field_validator

from reason.config.base import PLAIN, BaseConfig
from reason.data import PuzzleData
from reason.losses.halting import correct_cells
from reason.models.base import IGNORE, Reasoner
from reason.nn.dtypes import widest_float
from reason.rollout import unroll
from reason.training.checkpoint import random_state, restore_random_state
from reason.training.distributed import World
from reason.training.ema import Ema


class MonitorConfig(BaseConfig):
    """Validation during training: split, number of puzzles, interval."""

    split: str = Field(
        "validation", pattern=PLAIN, description="the validation split; no validation if the set lacks it"
    )
    every: int | None = Field(
        None, ge=1, description="optimizer steps between validations; none: training.checkpoint_every"
    )
    puzzles: int = Field(512, ge=0, description="at most this many, the first of the split; 0: no validation")

    @field_validator("split")
    @classmethod
    def _not_the_test(cls, split: str) -> str:
        if split == "test":
            raise ValueError("the test split would choose what it later judges: type training.monitor.split=validation")
        return split


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

    def as_dict(self) -> dict[str, Any]:
        """A dict for JSON."""
        return asdict(self)


class Monitor:
    """Validation on the first puzzles of a split, in batches of one shape, distributed over processes.

    Random initial states come from seed 0 at every call; the random streams of training are unchanged.
    """

    def __init__(self, sets: Sequence[PuzzleData], puzzles: int, steps: int, rows: int, world: World):
        """`puzzles` of each of the sets at most."""
        self.sets, self.steps, self.rows, self.world = sets, steps, rows, world
        self.counts = [min(len(data), puzzles) for data in sets]

    @torch.no_grad()
    def read(self, model: Reasoner, ema: Ema | None, step: int) -> Reading:
        """Accuracy at optimizer step `step`; `ema` is what is read where the run keeps one."""
        started, device, training = time.perf_counter(), self.sets[0].device, model.training
        random = random_state(device)
        sums = torch.zeros(2, dtype=widest_float(device), device=device)
        with contextlib.nullcontext() if ema is None else ema.in_place():
            try:
                torch.manual_seed(0)
                model.eval()
                for data, count in zip(self.sets, self.counts, strict=True):
                    for first in range(self.world.rank * self.rows, count, self.world.size * self.rows):
                        sums += self._right(model, data, first, count).to(sums.dtype)
            finally:
                model.train(training)
                restore_random_state(random, device)
        exact, cell = (self.world.sum(sums) / sum(self.counts)).tolist()
        return Reading(step, exact, cell, sum(self.counts), time.perf_counter() - started)

    def _right(self, model: Reasoner, data: PuzzleData, first: int, count: int) -> torch.Tensor:
        """(2,): puzzles right, and the sum of their shares of right cells, of the rows from `first` on."""
        examples = torch.arange(first, first + self.rows, device=data.device)
        counted = examples < count  # the last batch is padded to the static shape
        batch = data.take(examples.clamp(max=count - 1))
        for _, readout in unroll(model, batch, self.steps):
            last = readout
        right, exact = correct_cells(last.logits, batch.labels)
        labelled = (batch.labels != IGNORE).sum(-1).clamp(min=1)
        return torch.stack([(exact & counted).sum(), (right.sum(-1) / labelled * counted).sum()])
