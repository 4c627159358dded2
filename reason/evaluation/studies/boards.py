"""A few puzzles with the answer after every step, for drawings."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch

from reason.data.augmentation import IDENTITY, Symmetries
from reason.evaluation.evaluator import Columns, Consumer
from reason.models.base import Batch, Reasoner, State
from reason.rollout import Unroller, exact_logit, unroll
from reason.settings.rollout import Halting


class StepAnswers(NamedTuple):
    """One puzzle's answers: row m − 1 is supervision step m."""

    answers: np.ndarray  # (T, S) tokens
    halting: list[float] | None  # T probabilities that the halting head gives "exact"; None: no head


@torch.inference_mode()
def answers_by_step(
    model: Reasoner,
    batch: Batch,
    steps: int,
    halting: Halting | None = "bce",
    start: Callable[[State], State] | None = None,
    symmetries: Symmetries = IDENTITY,
    until: Callable[[np.ndarray], np.ndarray] | None = None,
    unroller: Callable[[torch.Tensor], Unroller] = lambda questions: unroll,
    end: float = math.inf,
) -> list[StepAnswers]:
    """Run a batch for `steps` supervision steps from its initial state, which `start` may change.

    `symmetries` transform the input of each row; the answers are mapped back. `until` maps answers (B, S) to (B,)
    bool, whether each is accepted; the first step with an accepted answer is the last, and so is the first step that
    ends after `end` (`time.monotonic`). `unroller` maps the transformed questions (B, S) to the function that takes the
    steps.
    """
    model.eval()
    batch = batch._replace(inputs=symmetries.apply(batch.inputs))
    answers, heads = [], []
    for record in unroller(batch.inputs)(model, batch, steps, start=start):
        answers.append(symmetries.undo(record.answer))
        q = exact_logit(record.readout, halting)
        if q is not None:
            heads.append(q.sigmoid())
        if (until is not None and until(answers[-1].cpu().numpy()).any()) or time.monotonic() >= end:
            break
    tokens = torch.stack(answers, dim=1).cpu().numpy()
    halting_by_row = torch.stack(heads, dim=1).tolist() if heads else [None] * len(tokens)
    return [StepAnswers(row, head) for row, head in zip(tokens, halting_by_row, strict=True)]


def examples_of(exact: np.ndarray, count: int) -> tuple[list[int], list[int]]:
    """Select up to `count` solved and `count` failed puzzles of exact (T, N), evenly spread over the split."""

    def some(right: np.ndarray) -> list[int]:
        found = np.flatnonzero(right)
        return [int(found[i]) for i in np.linspace(0, len(found) - 1, min(count, len(found))).round().astype(int)]

    return some(exact[-1]), some(~exact[-1])


SHOWN = 6  # solved puzzles on the page, and as many failed ones


class Boards(Consumer):
    """Questions, labels and the answer at every step, for puzzles selected from Accuracy's columns."""

    order = 100

    def result(self, seen: Columns) -> dict[str, Any]:
        """Return the content of boards.json."""
        evaluator, puzzle = self.evaluator, self.evaluator.puzzle
        assert puzzle is not None
        solved, failed = examples_of(seen["exact"], SHOWN)
        examples = evaluator.examples[solved + failed]
        batch, start = evaluator.data.take(examples), evaluator.start(examples)
        unroller = partial(evaluator.unroller, rows=examples)
        found = answers_by_step(evaluator.model, batch, evaluator.steps, evaluator.halting, start, unroller=unroller)
        board = puzzle.on_board(np.arange(batch.inputs.shape[1]))
        (rows, columns), shown = board.shape, board.ravel().tolist()
        by_puzzle = {
            "example": examples.tolist(),
            "solved": [row < len(solved) for row in range(len(examples))],
            "question": batch.inputs[:, shown].tolist(),
            "given": puzzle.given(batch.inputs.cpu().numpy())[:, shown].tolist(),
            "label": batch.labels[:, shown].tolist(),  # −100: not scored
            "answers": [by_step.answers[:, shown].tolist() for by_step in found],
            "halting": [by_step.halting for by_step in found],
        }
        return {
            "boards": {
                "task": puzzle.task["name"],
                "rows": rows,
                "columns": columns,
                "box": puzzle.box_shape,
                "glyphs": puzzle.glyphs,
                "fills": puzzle.colours,
                "puzzles": [
                    dict(zip(by_puzzle, values, strict=True)) for values in zip(*by_puzzle.values(), strict=True)
                ],
            }
        }
