"""Costs and savings of sharing keys and values between loops (Ouro)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from reason.evaluation.evaluator import Columns, Consumer, Evaluator
from reason.extensions.looped.decoding import Sharing, generate
from reason.extensions.looped.model import LoopedModel
from reason.models.base import IGNORE, Batch
from reason.report.section import Results, Section, Table, cells
from reason.rollout import StepRecord

WAYS: tuple[tuple[Sharing, bool], ...] = (
    ("per-loop", False),
    *((sharing, keep_prompt) for keep_prompt in (False, True) for sharing in ("last", "mean", "first")),
)


def in_order(sums: np.ndarray) -> np.ndarray:
    """Add sums (..., batches) over the batches in a fixed order, so that the result is reproducible bit for bit."""
    return np.asarray(sum(np.moveaxis(sums, -1, 0)))


def answer(
    model: LoopedModel, batch: Batch, loops: int, sharing: Sharing = "per-loop", keep_prompt: bool = False
) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Generate the scored cells of each row from the cells before them, and compare them with the labels.

    Returns (B,) whether all scored tokens are right; (B,) the mean −ln p of the right token after the model's output,
    by softmax; the bytes of all rows' keys and values. A row's prompt ends with its first scored cell, whose label is
    the first new token; rows with the same prompt length form a batch.
    """
    scored = batch.labels != IGNORE
    lengths = scored.int().argmax(-1) + 1
    exact, loss, size = torch.zeros_like(scored[:, 0]), torch.zeros(len(scored), device=scored.device), 0
    for length in lengths.unique().tolist():
        rows = lengths == length
        count = int(scored[rows].sum(1).max())
        new = slice(length - 1, length - 1 + count)
        labels, inside = batch.labels[rows, new], scored[rows, new]
        decoded = generate(model, batch.inputs[rows, :length], count, loops, sharing, keep_prompt)
        exact[rows] = ((decoded.tokens == labels) | ~inside).all(1)
        right = decoded.logits.float().log_softmax(-1).gather(-1, labels.clamp(min=0)[..., None]).squeeze(-1)
        loss[rows] = -torch.where(inside, right, 0.0).sum(1) / inside.sum(1)
        size += decoded.bytes
    return exact, loss, size


class Caches(Consumer):
    """Sums `caches` (ways, 3, batches): exact, CE and bytes; each way decodes every puzzle."""

    def __init__(self, evaluator: Evaluator):
        super().__init__(evaluator)
        self.steps = 1
        self.cost = f"caches: {len(WAYS)} greedy decodings of {len(evaluator.examples):,} puzzles"

    def observe(self, record: StepRecord) -> Columns | None:
        """Decode the batch in every way."""
        model: Any = self.evaluator.model
        sums = []
        for way in WAYS:
            with torch.compiler.set_stance("force_eager"):  # each token has another length
                exact, loss, size = answer(model, record.batch, self.evaluator.trained_steps, *way)
            sums.append([exact.sum().item(), loss.sum().item(), size])
        return {"caches": np.array(sums, np.float64)[..., None]}

    def result(self, seen: Columns) -> dict[str, Any]:
        """Return a row for each way of sharing: exact, CE (nats, of the right token after the model's output), bytes.

        `keep_prompt`: only new tokens share keys and values, the prompt does not. `bytes`: of the keys and values of
        prompt and answer at the end of a text.
        """
        means = (in_order(seen["caches"]) / len(self.evaluator.examples)).tolist()
        return {
            "caches": [
                {"cache": sharing, "keep_prompt": keep_prompt, "exact": exact, "ce": ce, "bytes": size}
                for (sharing, keep_prompt), (exact, ce, size) in zip(WAYS, means, strict=True)
            ]
        }


def _tables(results: Results) -> list[Table]:
    rows = [
        [f"{row['cache']}{', prompt kept' * row['keep_prompt']}", *cells(row, exact=".1%", ce=".4f", bytes=",.0f")]
        for row in results["caches"]
    ]
    return [
        Table("greedy decoding with shared caches", ("keys and values", "exact", "CE (nats)", "bytes a text"), rows)
    ]


NOTE = """Each token is the likeliest after all loops. “per-loop” is equal to reading the whole text again. In the
others, all loops attend to one set of keys and values. CE is of the right token after the model's output."""

CACHES = Section("caches", "Shared caches", _tables, note=lambda _: NOTE, order=70)
