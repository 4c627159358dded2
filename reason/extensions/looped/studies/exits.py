"""The loops at which an exit gate stops, and its accuracy compared with fixed numbers of loops (Ouro)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from torch import Tensor

from reason.evaluation.evaluator import Columns, Consumer, Evaluator
from reason.extensions.looped.exit import exit_step, gates_of, log_exit_distribution
from reason.extensions.looped.studies.caches import in_order
from reason.losses.lm import Likelihood, cell_loss
from reason.models.base import IGNORE, Batch, Readout
from reason.nn.dtypes import widest_float
from reason.report.chart import Chart, legend, shares_axis
from reason.report.palette import styled
from reason.report.section import Results, Section, Table, cells, number
from reason.rollout import StepRecord

QUANTILES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)


class ExitGate(Consumer):
    """Sums `exits/ways` (ways, 4, batches), `exits/p` (T, batches), `exits/cells` (1, batches) over each batch.

    Measures the gate's distribution p(t), and accuracy against mean loops for exits by its quantiles and for fixed
    numbers of the T trained loops. Means are over the scored cells (`mean_loops`, `cell`, `ce` in nats) and puzzles
    (`exact`); a cell that exits keeps its answer of that loop.
    """

    def __init__(self, evaluator: Evaluator):
        super().__init__(evaluator)
        self.steps, self._readouts = evaluator.trained_steps, list[Readout]()

    def observe(self, record: StepRecord) -> Columns | None:
        """Store the readouts of a batch; at the last step, apply all exit rules."""
        self._readouts.append(record.readout)
        if record.step < self.steps:
            return None
        readouts, self._readouts = self._readouts, []
        logits = torch.stack([readout.logits for readout in readouts])  # (T, B, S, V)
        gates, labels = gates_of(readouts), record.batch.labels
        leaving = [exit_step(gates, q) for q in QUANTILES]
        leaving += [torch.full_like(labels, t) for t in range(1, self.steps + 1)]
        ways = [_sums(logits, step, record.batch, self.evaluator.likelihood) for step in leaving]
        p = log_exit_distribution(gates).exp() * (labels != IGNORE)
        columns = {"ways": torch.stack(ways), "p": p.to(widest_float(p.device)).sum((1, 2))}
        columns["cells"] = (labels != IGNORE).sum()[None]
        return {f"exits/{name}": sums.cpu().numpy()[..., None] for name, sums in columns.items()}

    def result(self, seen: Columns) -> dict[str, Any]:
        """Return p(t), a row for each quantile of the gate, and one for each fixed number of loops."""
        ways, p, cells = (in_order(seen[f"exits/{name}"]) for name in ("ways", "p", "cells"))
        puzzles = len(self.evaluator.examples)
        means = ways / np.array([*np.repeat(cells, 3), puzzles])
        rows = [dict(zip(("mean_loops", "cell", "ce", "exact"), row, strict=True)) for row in means.tolist()]
        return {
            "exits": {
                "puzzles": puzzles,
                "loops": self.steps,
                "p": (p / cells).tolist(),
                "gate": [{"quantile": q, **row} for q, row in zip(QUANTILES, rows, strict=False)],
                "fixed": [{"loops": t, **row} for t, row in enumerate(rows[len(QUANTILES) :], start=1)],
            }
        }


def _sums(logits: Tensor, step: Tensor, batch: Batch, likelihood: Likelihood) -> Tensor:
    """Return sums (4,): steps, right cells and CE over scored cells, and exact puzzles; each cell at its exit step."""
    index = (step - 1)[None, :, :, None].expand(1, *logits.shape[1:])
    chosen = logits.gather(0, index).squeeze(0)
    scored = batch.labels != IGNORE
    right = (chosen.argmax(-1) == batch.labels) & scored
    exact = (right == scored).all(-1) & scored.any(-1)
    parts = ((step * scored).sum(), right.sum(), cell_loss(chosen, batch.labels, likelihood).sum(), exact.sum())
    return torch.stack([part.to(widest_float(part.device)) for part in parts])


def _tables(results: Results) -> list[Table]:
    exits = results["exits"]
    rows = [
        [f"{way} {row[at]:g}", *cells(row, mean_loops=".2f", exact=".1%", cell=".1%", ce=".4f")]
        for way, at in (("fixed", "loops"), ("gate", "quantile"))
        for row in exits[way]
    ]
    leaves = [[str(t), number(p, ".3f")] for t, p in enumerate(exits["p"], start=1)]
    return [
        Table("exits by the gate", ("way", "mean loops", "exact", "cells", "CE (nats)"), rows),
        Table("distribution of exits", ("loop t", "mean p(t)"), leaves),
    ]


def _charts(results: Results) -> list[Chart]:
    def draw(axes: Axes) -> None:
        for index, way in enumerate(("fixed", "gate")):
            rows = sorted(results["exits"][way], key=lambda row: row["mean_loops"])
            axes.plot([r["mean_loops"] for r in rows], [r["exact"] for r in rows], label=way, **styled(index))
        axes.set(xlabel="mean loops of a cell")
        shares_axis(axes, "exact")
        legend(axes)

    return [Chart("exact against mean loops", "the numbers are in the table", draw)]


NOTE = """A cell exits at the first loop where the gate's distribution exceeds the quantile, and keeps its answer.
Fixed: all exit after so many loops. p(t): probability of an exit after loop t, mean over the scored cells."""

EXITS = Section("exits", "Exits by the gate", _tables, {"exits": _charts}, lambda _: NOTE, order=60)
