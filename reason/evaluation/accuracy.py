"""Exact and cell accuracy at every supervision step, in one pass."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch
from tqdm import tqdm

from reason.data import PuzzleData
from reason.floats import widest_float
from reason.losses.halting import correct_cells
from reason.models.base import IGNORE, Reasoner
from reason.rollout import unroll


@dataclass(frozen=True)
class Accuracy:
    """What one pass saw: index 0 of each list is supervision step 1."""

    exact_by_step: list[float]  # share of puzzles whose every labelled cell is right
    cell_by_step: list[float]  # mean over puzzles of the share of labelled cells that are right
    halted_by_step: list[float]  # share of puzzles whose halting head says stop (q_halt > 0)
    puzzles: int
    seconds: float


@torch.inference_mode()
def accuracy_by_step(
    model: Reasoner, data: PuzzleData, steps: int, batch_size: int, limit: int | None = None, progress: bool = True
) -> Accuracy:
    """Every example of the split (the first `limit`), `steps` supervision steps each, nothing halting.

    Sums stay on the device until the end: one wait per batch, for the progress bar.
    """
    model.eval()
    count = min(len(data), limit or len(data))
    sums = torch.zeros(3, steps, dtype=widest_float(data.device), device=data.device)
    started = time.perf_counter()
    with tqdm(total=count, unit="puzzle", desc="evaluating", disable=not progress, dynamic_ncols=True) as bar:
        for first in range(0, count, batch_size):
            examples = torch.arange(first, min(first + batch_size, count), device=data.device)
            batch = data.take(examples)
            labelled = (batch.labels != IGNORE).sum(-1).clamp(min=1)
            for m, (_, readout) in enumerate(unroll(model, batch, steps)):
                right, exact = correct_cells(readout.logits, batch.labels)
                sums[0, m] += exact.sum()
                sums[1, m] += (right.sum(-1) / labelled).sum()
                if readout.halt is not None:
                    sums[2, m] += (readout.halt > 0).sum()
            bar.update(len(examples))
    exact_means, cell_means, halted_means = (sums / count).tolist()
    return Accuracy(exact_means, cell_means, halted_means, count, time.perf_counter() - started)
