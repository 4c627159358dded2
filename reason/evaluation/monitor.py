"""Accuracy on the validation split during training."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence

import numpy as np
import torch

from reason.data.puzzles import PuzzleData
from reason.evaluation.config import EvaluationConfig
from reason.evaluation.evaluator import Accuracy, Evaluator
from reason.models.base import Reasoner
from reason.training.ema import Ema
from reason.training.monitor import Validation
from reason.training.world import World


class SplitMonitor:
    """The first puzzles of a split of each set, in batches of one shape; each process evaluates its share.

    Random initial states come from seed 0 at every validation and do not change training's own stream.
    """

    def __init__(self, sets: Sequence[PuzzleData], puzzles: int, steps: int, rows: int, world: World):
        """puzzles: the largest number that is evaluated of each set."""
        self.sets = sets
        self.steps = steps
        self.world = world
        self.settings = EvaluationConfig(steps=steps, limit=puzzles, batch_size=rows)

    @torch.no_grad()
    def validate(self, model: Reasoner, ema: Ema | None, step: int) -> Validation:
        """Return the accuracy at optimizer step `step` over the puzzles of all sets, of `ema` if the run keeps one."""
        started = time.perf_counter()
        training = model.training
        sums = np.zeros(2)  # of exact and cell accuracy over the puzzles
        count = 0
        try:
            with contextlib.nullcontext() if ema is None else ema.in_place():
                for data in self.sets:
                    evaluator = Evaluator(
                        model, data, self.settings, self.steps, progress=False, world=self.world, fill=True
                    )
                    accuracy = Accuracy(evaluator, first=self.steps)
                    with evaluator.own_randomness():
                        results = accuracy.result(evaluator.observe([accuracy])[0])
                    shares = np.array([*results["exact_by_step"], *results["cell_by_step"]])
                    sums += shares * len(evaluator.examples)
                    count += len(evaluator.examples)
        finally:
            model.train(training)
        exact, cell = (sums / count).tolist()
        return Validation(step, exact, cell, count, time.perf_counter() - started)
