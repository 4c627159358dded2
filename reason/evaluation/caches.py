"""What sharing keys and values between loops costs and saves (Ouro)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from reason.evaluation.evaluator import Columns, Consumer, Evaluator, in_order
from reason.generation.decoding import answer
from reason.models.record import StepRecord
from reason.nn.cache import Sharing

WAYS: tuple[tuple[Sharing, bool], ...] = (
    ("per-loop", False),
    *((sharing, keep_prompt) for keep_prompt in (False, True) for sharing in ("last", "mean", "first")),
)


class Caches(Consumer):
    """`caches` (ways, 4, batches): sums of exact, CE, bytes and prompt bytes; each way a decoding of every puzzle."""

    steps, timed = 1, False

    def __init__(self, evaluator: Evaluator):
        super().__init__(evaluator)
        self.cost = f"caches: {len(WAYS)} greedy decodings of {len(evaluator.examples):,} puzzles"

    def observe(self, record: StepRecord) -> Columns | None:
        """Decode the batch in every way."""
        sums = []
        for sharing, keep_prompt in WAYS:
            with torch.compiler.set_stance("force_eager"):  # every token has a length of its own
                found = answer(self.evaluator.model, record.batch, self.evaluator.trained_steps, sharing, keep_prompt)
            exact, loss = found.exact.sum().item(), found.loss.sum().item()
            sums.append([exact, loss, found.cache_bytes, found.prompt_bytes])
        return {"caches": np.array(sums, np.float64)[..., None]}

    def result(self, seen: Columns) -> dict[str, Any]:
        """One row for each way of sharing: exact, CE (nats, of the right token in the model's own history), bytes.

        `keep_prompt`: only what was said is shared, the prompt's keys and values are not. `bytes`, of a text, are those
        of keys and values of prompt and answer at its end; `prompt_bytes` those while the prompt is read, one set per
        loop in any case.
        """
        totals = in_order(seen["caches"]) / len(self.evaluator.examples)
        names = ("exact", "ce", "bytes", "prompt_bytes")
        return {
            "caches": [
                {"cache": sharing, "keep_prompt": keep_prompt, **dict(zip(names, row, strict=True))}
                for (sharing, keep_prompt), row in zip(WAYS, totals.tolist(), strict=True)
            ]
        }
