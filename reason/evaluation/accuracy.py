"""One pass over a split, read at every supervision step."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from datasets_gen.puzzles import Puzzle
from reason.data import PuzzleData
from reason.evaluation.signals import signals, survived
from reason.losses.halting import correct_cells
from reason.losses.lm import Likelihood
from reason.models.base import IGNORE, Batch, Reasoner
from reason.rollout import Halting, unroll_states
from reason.training.distributed import World

Rules = Callable[[np.ndarray, np.ndarray], np.ndarray]  # (N, S) questions, (N, S) answers -> (N,) bool


@dataclass(frozen=True)
class Record:
    """What one pass saw of N puzzles; row m − 1 of every (T, N) array is supervision step m."""

    exact: np.ndarray  # (T, N) bool: every scored cell right
    right: np.ndarray  # (T, N) int32: scored cells that are right
    scored: np.ndarray  # (N,) int32: scored cells
    valid: np.ndarray | None  # (T, N) bool: the answer obeys the puzzle's rules; None: no rule tells
    signals: dict[str, np.ndarray]  # (T, N) float32, see reason/evaluation/signals.py
    loss: np.ndarray  # (T, N) float32: mean −ln p over a puzzle's scored cells
    seconds: float

    @property
    def steps(self) -> int:
        """T."""
        return len(self.exact)

    @property
    def puzzles(self) -> int:
        """N."""
        return self.exact.shape[1]

    def rows(self, rows: np.ndarray) -> Record:
        """The record of some of the puzzles."""
        return Record(
            self.exact[:, rows],
            self.right[:, rows],
            self.scored[rows],
            None if self.valid is None else self.valid[:, rows],
            {name: values[:, rows] for name, values in self.signals.items()},
            self.loss[:, rows],
            self.seconds,
        )


@dataclass(frozen=True)
class Accuracy:
    """Shares at every step: index 0 of each list is supervision step 1."""

    exact_by_step: list[float]  # share of puzzles whose every scored cell is right
    cell_by_step: list[float]  # mean over puzzles of the share of scored cells that are right
    valid_by_step: list[float] | None  # share of puzzles whose answer obeys the rules, whatever the label
    halted_by_step: list[float] | None  # share of puzzles whose halting head says stop; None: there is no head
    loss_by_step: list[float]  # mean −ln p of the scored cells
    residual_by_step: list[float]  # mean ‖z_k − z_{k−1}‖/‖z_{k−1}‖; inf from a start at 0
    puzzles: int
    seconds: float


def accuracy_of(record: Record) -> Accuracy:
    """The means over a record's puzzles."""
    residuals = -record.signals["residual"].mean(1, dtype=np.float64)
    return Accuracy(
        exact_by_step=record.exact.mean(1).tolist(),
        cell_by_step=(record.right / np.maximum(record.scored, 1)).mean(1).tolist(),
        valid_by_step=None if record.valid is None else record.valid.mean(1).tolist(),
        halted_by_step=(record.signals["q"] > 0).mean(1).tolist() if "q" in record.signals else None,
        loss_by_step=record.loss.mean(1, dtype=np.float64).tolist(),
        residual_by_step=residuals.tolist(),
        puzzles=record.puzzles,
        seconds=record.seconds,
    )


@torch.inference_mode()
def one_pass(
    model: Reasoner,
    data: PuzzleData,
    steps: int,
    batch_size: int = 256,
    *,
    limit: int | None = None,
    puzzle: Puzzle | None = None,
    likelihood: Likelihood = "softmax",
    halting: Halting = "bce",
    progress: bool = True,
    world: World | None = None,
) -> Record:
    """Every example of the split (the first `limit`), `steps` supervision steps each, nothing halting.

    In a world of several processes each reads its portion, and all have the whole record. What a step says stays on
    the device until its batch ends, and comes over at once. Rules are then checked on the host, an answer only where
    it differs from the step before.
    """
    world = world or World()
    model.eval()
    count = min(len(data), limit or len(data))
    rules = puzzle.solved if puzzle is not None and puzzle.judges else None
    columns: list[dict[str, np.ndarray]] = []
    started = time.perf_counter()
    own = world.portion(count)
    with tqdm(total=len(own), unit="puzzle", desc="evaluating", disable=not progress, dynamic_ncols=True) as bar:
        for first in range(own.start, own.stop, batch_size):
            examples = torch.arange(first, min(first + batch_size, own.stop), device=data.device)
            columns.append(_batch(model, data.take(examples), steps, rules, likelihood, halting))
            bar.update(len(examples))
    columns = world.collect(columns)
    whole = {name: np.concatenate([column[name] for column in columns], axis=-1) for name in columns[0]}
    exact, right, scored, loss = (whole.pop(name) for name in ("exact", "right", "scored", "loss"))
    valid = whole.pop("valid", None)
    return Record(exact, right, scored, valid, whole, loss, time.perf_counter() - started)


def _batch(
    model: Reasoner, batch: Batch, steps: int, rules: Rules | None, likelihood: Likelihood, halting: Halting
) -> dict[str, np.ndarray]:
    """(T, B) arrays by name, and `scored` (B,)."""
    seen: dict[str, list[Tensor]] = {}
    answers = []
    survival: Tensor | None = None
    for before, after, readout in unroll_states(model, batch, steps):
        right, exact = correct_cells(readout.logits, batch.labels)
        survival = survived(survival, readout)
        said = signals(before, after, readout, batch.labels, likelihood, halting, survival)
        for name, values in {"exact": exact, "right": right.sum(-1, dtype=torch.int32), **said}.items():
            seen.setdefault(name, []).append(values)
        if rules is not None:
            answer = readout.logits.argmax(-1)
            answers.append(answer.to(torch.uint8 if readout.logits.shape[-1] <= 256 else torch.int32))
    found = {name: torch.stack(values).cpu().numpy() for name, values in seen.items()}
    found["scored"] = (batch.labels != IGNORE).sum(-1, dtype=torch.int32).cpu().numpy()
    if rules is not None:
        found["valid"] = _valid(rules, batch.inputs.cpu().numpy(), torch.stack(answers).cpu().numpy())
    return found


def _valid(rules: Rules, questions: np.ndarray, answers: np.ndarray) -> np.ndarray:
    """(B, S), (T, B, S) -> (T, B): checked where an answer is new, else as the step before."""
    new = np.ones(answers.shape[:2], bool)
    new[1:] = (answers[1:] != answers[:-1]).any(-1)
    step, row = np.nonzero(new)
    checked = np.zeros(new.shape, bool)
    checked[new] = rules(questions[row].astype(answers.dtype), answers[step, row])
    latest = np.maximum.accumulate(np.where(new, np.arange(len(answers))[:, None], 0), axis=0)
    return np.take_along_axis(checked, latest, axis=0)
