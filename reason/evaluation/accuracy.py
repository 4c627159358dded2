"""Exact and cell accuracy, beside the labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from reason.evaluation.evaluator import Columns, Consumer, Evaluator, StepColumns
from reason.models.base import IGNORE
from reason.models.record import StepRecord


class Accuracy(Consumer):
    """`exact`, `right` (T, N): whole puzzles, and how many scored cells; `scored` (1, N): of how many.

    exact_by_step: share of puzzles whose every scored cell is right. cell_by_step: mean over puzzles of the share of
    scored cells that are right. Of the last step alone where `first` = T.
    """

    def __init__(self, evaluator: Evaluator, first: int = 1):
        super().__init__(evaluator)
        self.steps, self.first = evaluator.steps, first
        self._kept = StepColumns(self.steps - first + 1)

    def observe(self, record: StepRecord) -> Columns | None:
        """Compare with the labels."""
        if record.step >= self.first:
            self._kept.add({"exact": record.exact, "right": record.right.sum(-1, dtype=torch.int32)})
        if record.step < self.steps:
            return None
        scored = (record.batch.labels != IGNORE).sum(-1, dtype=torch.int32)
        return self._kept.take() | {"scored": scored[None].cpu().numpy()}

    def result(self, seen: Columns) -> dict[str, Any]:
        """Shares by step: index 0 of each list is step `first`."""
        return {
            "exact_by_step": seen["exact"].mean(1).tolist(),
            "cell_by_step": (seen["right"] / np.maximum(seen["scored"], 1)).mean(1).tolist(),
        }
