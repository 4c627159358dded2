"""Votes of the augmented copies of a puzzle on its answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from datasets_gen.extensions.arc.puzzles import Arc
from datasets_gen.extensions.arc.vote import vote
from reason.errors import ConfigError
from reason.evaluation.evaluator import Columns, Consumer, Evaluator, narrow
from reason.evaluation.suite import CONSUMERS, FILES, SECTIONS
from reason.report.section import Results, Section, Table, share
from reason.rollout import StepRecord, exact_logit


class Votes(Consumer):
    """Collects `votes/answers` (steps, S, N), `votes/halting` (steps, N) and `votes/identifiers` (N,).

    pass@K of the answers after the trained steps and after the last one; the halting head's probability breaks ties.
    """

    def __init__(self, evaluator: Evaluator):
        super().__init__(evaluator)
        names = evaluator.data.directory / "identifiers.json"
        if not names.is_file():  # raises before the evaluation, not after it
            raise ConfigError(f"{names} is missing; ARC's votes need its task names")
        self.at = sorted({min(evaluator.trained_steps, self.steps), self.steps})
        self._kept: list[tuple[Tensor, Tensor]] = []

    def observe(self, record: StepRecord) -> Columns | None:
        """Keep answers and halting probabilities at the steps that are scored."""
        if record.step in self.at:
            q = exact_logit(record.readout, self.evaluator.halting)
            halting = torch.zeros(len(record.answer), device=record.answer.device) if q is None else q.sigmoid()
            self._kept.append((narrow(record.answer, record).T, halting))
        if record.step < self.steps:
            return None
        kept, self._kept = [torch.stack(values).cpu().numpy() for values in zip(*self._kept, strict=True)], []
        identifiers = record.batch.identifiers.cpu().numpy()
        return {"votes/answers": kept[0], "votes/halting": kept[1], "votes/identifiers": identifiers}

    def result(self, seen: Columns) -> dict[str, Any]:
        """Compute pass@K at each of these steps, and ARC Prize's submission at the last."""
        evaluator = self.evaluator
        inputs, _ = evaluator.data.tokens_of(evaluator.examples)
        rows = []
        for step, answers, halting in zip(self.at, seen["votes/answers"], seen["votes/halting"], strict=True):
            cast = (seen["votes/identifiers"], inputs, np.ascontiguousarray(answers.T), halting)
            rows.append({"step": step, **vote(evaluator.data.directory, evaluator.data.split, *cast)})
        return {"submission": [row.pop("submission") for row in rows][-1], "votes": rows}


def _tables(results: Results) -> list[Table]:
    attempts = list(results["votes"][0]["pass_at"])
    rows = [
        [str(row["step"]), *(share(row["pass_at"][k]) for k in attempts), str(row["tasks"]), str(row["unanswered"])]
        for row in results["votes"]
    ]
    return [Table("votes", ("step", *(f"pass@{k}" for k in attempts), "tasks", "unanswered"), rows)]


NOTE = """Each copy's answer is transformed back and has one vote. pass@K: the mean over tasks of the share of test
inputs whose output is among the K answers with most votes. Unanswered inputs count as wrong."""

VOTES = Section("votes", "Votes of augmented copies", _tables, note=lambda _: NOTE, order=10)
CONSUMERS[Votes] = lambda evaluator: isinstance(evaluator.puzzle, Arc) and evaluator.data.split == "test"
SECTIONS.append(VOTES)
FILES.append("submission")
