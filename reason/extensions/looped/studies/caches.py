"""What sharing keys and values between loops costs and saves (Ouro)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes

from reason.evaluation.evaluator import Columns, Consumer, Evaluator, in_order
from reason.extensions.looped.cache import Sharing
from reason.extensions.looped.decoding import answer
from reason.report.chart import Chart
from reason.report.palette import BLUE, ORANGE
from reason.report.section import Results, Section, Table, number, share
from reason.rollout import StepRecord

WAYS: tuple[tuple[Sharing, bool], ...] = (
    ("per-loop", False),
    *((sharing, keep_prompt) for keep_prompt in (False, True) for sharing in ("last", "mean", "first")),
)


class Caches(Consumer):
    """`caches` (ways, 4, batches): sums of exact, CE, bytes and prompt bytes; each way a decoding of every puzzle."""

    steps = 1

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


def _ways(results: Results) -> list[str]:
    return [f"{row['cache']}{', prompt kept' * row['keep_prompt']}" for row in results["caches"]]


def _tables(results: Results) -> list[Table]:
    rows = [
        [way, share(row["exact"]), number(row["ce"], ".4f"), f"{row['bytes']:,.0f}", f"{row['prompt_bytes']:,.0f}"]
        for way, row in zip(_ways(results), results["caches"], strict=True)
    ]
    columns = ("keys and values", "exact", "CE (nats)", "bytes a text", "of a prompt")
    return [Table("greedy decoding with shared caches", columns, rows)]


def _charts(results: Results) -> list[Chart]:
    ways, rows = _ways(results), results["caches"]

    def drawing(key: str, colour: str) -> Callable[[Axes], None]:
        def draw(axes: Axes) -> None:
            axes.barh(ways[::-1], [row[key] for row in rows][::-1], color=colour)
            axes.set_xlim(0, 1.02) if key == "exact" else None

        return draw

    exact = ", ".join(f"{way} {share(row['exact'])}" for way, row in zip(ways, rows, strict=True))
    memory = ", ".join(f"{way} {row['bytes']:,.0f}" for way, row in zip(ways, rows, strict=True))
    return [Chart("exact", exact, drawing("exact", BLUE)), Chart("bytes a text", memory, drawing("bytes", ORANGE))]


NOTE = """Each token is the likeliest after all loops. “per-loop” computes what reading the whole text anew would; the
others let all loops look at one set of keys and values. CE is of the right token in the model's own history."""

CACHES = Section("caches", "Shared caches", _tables, {"caches": _charts}, lambda _: NOTE, place=70)
