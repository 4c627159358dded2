"""Accuracy on puzzles that are not trained on, read during training."""

from __future__ import annotations

import contextlib
import time

import torch

from reason.data import PuzzleData
from reason.evaluation.accuracy import Accuracy
from reason.evaluation.config import EvaluationConfig
from reason.evaluation.evaluator import Evaluator
from reason.models.base import Reasoner
from reason.training.distributed import World
from reason.training.ema import Ema
from reason.training.monitor import Reading


class SplitMonitor:
    """The first puzzles of a split, in batches of one shape; each process reads its share, each puzzle counts once.

    Random draws (a random initial state) come from seed 0 at every reading and leave training's own stream alone.
    """

    def __init__(self, data: PuzzleData, puzzles: int, steps: int, rows: int, world: World):
        self.data, self.steps, self.world = data, steps, world
        self.settings = EvaluationConfig(steps=steps, limit=puzzles, batch_size=rows)

    @torch.no_grad()
    def read(self, model: Reasoner, ema: Ema | None, step: int) -> Reading:
        """Accuracy at optimizer step `step`; `ema` is what is read where the run keeps one."""
        started, training = time.perf_counter(), model.training
        evaluator = Evaluator(model, self.data, self.settings, self.steps, progress=False, world=self.world, fill=True)
        accuracy = Accuracy(evaluator, first=self.steps)
        with contextlib.nullcontext() if ema is None else ema.in_place(), evaluator.own_randomness():
            try:
                seen, _ = evaluator.observe([accuracy])
            finally:
                model.train(training)
        found = accuracy.result(seen)
        (exact,), (cell,) = found["exact_by_step"], found["cell_by_step"]
        return Reading(step, exact, cell, len(evaluator.examples), time.perf_counter() - started)
