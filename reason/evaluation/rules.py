"""Accuracy by the puzzle's own rules, whatever the label: of several right answers each counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from reason.evaluation.evaluator import Columns, Consumer, Evaluator, StepColumns, narrow
from reason.models.record import StepRecord


class Rules(Consumer):
    """`valid` (T, N) bool: the answer obeys the rules. Checked on the host once a batch, where an answer is new."""

    def __init__(self, evaluator: Evaluator):
        super().__init__(evaluator)
        puzzle = evaluator.puzzle
        self._solved = puzzle.solved if puzzle is not None and puzzle.judges else None
        self.steps = evaluator.steps if self._solved is not None else 0
        self._kept = StepColumns(self.steps)

    def observe(self, record: StepRecord) -> Columns | None:
        """Keep the answers of a batch, then check them."""
        assert self._solved is not None
        self._kept.add({"answers": narrow(record.answer, record)})
        if record.step < self.steps:
            return None
        answers = self._kept.take()["answers"]
        questions = narrow(record.batch.inputs, record).cpu().numpy()
        new = np.ones(answers.shape[:2], bool)
        new[1:] = (answers[1:] != answers[:-1]).any(-1)
        step, row = np.nonzero(new)
        checked = np.zeros(new.shape, bool)
        checked[new] = self._solved(questions[row], answers[step, row])
        latest = np.maximum.accumulate(np.where(new, np.arange(len(answers))[:, None], 0), axis=0)
        return {"valid": np.take_along_axis(checked, latest, axis=0)}

    def result(self, seen: Columns) -> dict[str, Any]:
        """Share of puzzles whose answer obeys the rules, by step; None: no rule decides."""
        return {"valid_by_step": seen["valid"].mean(1).tolist() if "valid" in seen else None}
