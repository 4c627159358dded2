"""Puzzles as they are thought about: the answer after every step, for drawings."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from reason.evaluation.signals import Halting, halt_signal
from reason.models.base import Batch, Reasoner
from reason.rollout import unroll_states


@dataclass(frozen=True)
class Thought:
    """One puzzle's answers: row m − 1 is supervision step m."""

    answers: np.ndarray  # (T, S) tokens
    halting: list[float] | None  # T probabilities that the halting head gives "exact"; None: no head


@torch.inference_mode()
def think(model: Reasoner, batch: Batch, steps: int, halting: Halting = "bce") -> list[Thought]:
    """Every row of a batch through `steps` supervision steps."""
    model.eval()
    answers, heads = [], []
    for _, _, readout in unroll_states(model, batch, steps):
        answers.append(readout.logits.argmax(-1))
        q = halt_signal(readout, halting)
        if q is not None:
            heads.append(q.sigmoid())
    tokens = torch.stack(answers, dim=1).cpu().numpy()
    said = torch.stack(heads, dim=1).tolist() if heads else [None] * len(tokens)
    return [Thought(row, head) for row, head in zip(tokens, said, strict=True)]


def examples_of(exact: np.ndarray, count: int) -> tuple[list[int], list[int]]:
    """Up to `count` solved and failed puzzles each, (T, N) exact -> their numbers; evenly spread over the split.

    Solved ones are ranked by the step at which they came out right, latest first, half of the choice: they show more.
    """
    last = exact[-1]
    solved, failed = np.flatnonzero(last), np.flatnonzero(~last)
    wrong_steps = (~exact[:, solved]).sum(0)
    late = solved[np.argsort(-wrong_steps, kind="stable")][: (count + 1) // 2]
    rest = np.setdiff1d(solved, late)
    some = [int(i) for i in (*late, *_spread(rest, count - len(late)))]
    return some, [int(i) for i in _spread(failed, count)]


def _spread(numbers: np.ndarray, count: int) -> np.ndarray:
    if len(numbers) <= count:
        return numbers
    return numbers[np.linspace(0, len(numbers) - 1, count).round().astype(int)] if count > 0 else numbers[:0]
