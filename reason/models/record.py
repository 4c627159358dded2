"""The record of one supervision step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from reason.models.base import IGNORE, Batch, Readout, Reasoner, State


@dataclass(frozen=True)
class StepRecord:
    """One step of a batch without halting. Readout, answer and accuracy are computed on first access.

    step: m, counted from 1. rows: (B,) the puzzles' numbers in their split, where they come from one.
    """

    model: Reasoner
    step: int
    batch: Batch
    x: Tensor  # (B, S', D)
    before: State
    state: State
    rows: Tensor | None = None
    rules: Callable[[StepRecord], Tensor] | None = None  # (B,) bool, of puzzles with several right answers

    def read(self, state: State) -> Readout:
        """The readout of any state, as of this step."""
        return self.model.readout(state, self.step)

    @cached_property
    def readout(self) -> Readout:
        """The readout of the state after the step."""
        return self.read(self.state)

    @property
    def logits(self) -> Tensor:
        """(B, S, V)."""
        return self.readout.logits

    @property
    def q_halt(self) -> Tensor | None:
        """(B,) of the halting head; None: the model has none."""
        return self.readout.q_halt

    @cached_property
    def answer(self) -> Tensor:
        """(B, S) the likeliest tokens."""
        return self.logits.argmax(-1)

    @cached_property
    def right(self) -> Tensor:
        """(B, S) bool: scored cells that are right."""
        return (self.answer == self.batch.labels) & (self.batch.labels != IGNORE)

    @cached_property
    def exact(self) -> Tensor:
        """(B,) bool: every scored cell, one at least, is right; with several solutions, the rules hold."""
        if self.rules is not None:
            return self.rules(self)
        scored = self.batch.labels != IGNORE
        return (self.right == scored).all(-1) & scored.any(-1)
