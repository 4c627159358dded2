"""An exit gate at work: where it leaves, and what that costs beside a fixed number of loops (Ouro)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from scipy.stats import spearmanr
from torch import Tensor

from reason.evaluation.evaluator import Columns, Consumer, Evaluator, in_order
from reason.extensions.looped.exit import exit_step, log_exit_distribution
from reason.losses.lm import Likelihood, cell_loss
from reason.models.base import IGNORE, Batch, Readout
from reason.nn.dtypes import widest_float
from reason.plugins import extension, extensions
from reason.report.chart import Chart, legend, shares_axis
from reason.report.palette import BLUE, GREY
from reason.report.section import Results, Section, Table, cells, number, share
from reason.rollout import StepRecord

if TYPE_CHECKING:
    from reason.extensions.studies.signals import Reading

QUANTILES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)


def left(step: Reading) -> Tensor | None:
    """The signal of the gate, (B,): mean over the scored cells of 1 − Π(1 − λ); None: the model has no gate."""
    record, past = step.record, step.past
    if record.readout.gate is None:
        return None
    stays = torch.nn.functional.logsigmoid(-record.readout.gate.float())
    past["gate"] = stays if record.step == 1 else past["gate"] + stays  # (B, S) or (B, 1)
    return step.mean((-past["gate"].expm1()).expand(record.batch.labels.shape))


class ExitGate(Consumer):
    """`exits/ways` (ways, 4, batches), `exits/p` (T, batches), `exits/cells` (1, batches): sums over each batch.

    `exits/expected` (1, N): Σ t·p(t) of each puzzle, mean over its scored cells; `exits/exact` (T, N).

    The gate's distribution p(t), and accuracy against mean loops: leaving by its quantiles, and fixed loops, over the
    T trained ones. Means over the scored cells (`mean_loops`, `cell`, `ce` in nats) and over puzzles (`exact`); a cell
    that leaves keeps what it said there. A gate per puzzle takes all cells with it.
    """

    def __init__(self, evaluator: Evaluator):
        super().__init__(evaluator)
        self.steps, self._readouts = evaluator.trained_steps, list[Readout]()

    def observe(self, record: StepRecord) -> Columns | None:
        """Keep the readouts of a batch, then leave it in every way."""
        self._readouts.append(record.readout)
        if record.step < self.steps:
            return None
        readouts, self._readouts = self._readouts, []
        logits = torch.stack([readout.logits for readout in readouts])  # (T, B, S, V)
        gates = torch.stack([readout.gate for readout in readouts if readout.gate is not None])
        gates, labels = gates.expand(*logits.shape[:3]), record.batch.labels
        scored = labels != IGNORE
        leaving = [exit_step(gates, q) for q in QUANTILES]
        leaving += [torch.full_like(labels, t) for t in range(1, self.steps + 1)]
        ways = [_sums(logits, step, record.batch, self.evaluator.likelihood) for step in leaving]
        p = (log_exit_distribution(gates).exp() * scored).sum(2)  # (T, B)
        p = p.to(widest_float(p.device))
        loops = torch.arange(1, self.steps + 1, dtype=p.dtype, device=p.device)
        exact = ((logits.argmax(-1) == labels) | ~scored).all(-1)
        return {
            "exits/ways": torch.stack(ways).cpu().numpy()[..., None],
            "exits/p": p.sum(1).cpu().numpy()[:, None],
            "exits/cells": scored.sum()[None, None].cpu().numpy(),
            "exits/expected": (loops @ p / scored.sum(1))[None].cpu().numpy(),
            "exits/exact": exact.cpu().numpy(),
        }

    def result(self, seen: Columns) -> dict[str, Any]:
        """p(t), a row for each quantile of the gate, and one for each fixed number of loops."""
        ways, p, cells = (in_order(seen[f"exits/{name}"]) for name in ("ways", "p", "cells"))
        puzzles = len(self.evaluator.examples)
        bins = extension("studies", "difficulty").bins_of(self.evaluator) if "studies" in extensions() else None
        means = ways / np.array([*np.repeat(cells, 3), puzzles])
        rows = [dict(zip(("mean_loops", "cell", "ce", "exact"), row, strict=True)) for row in means.tolist()]
        return {
            "exits": {
                "puzzles": puzzles,
                "loops": self.steps,
                "p": (p / cells).tolist(),
                "gate": [{"quantile": q, **row} for q, row in zip(QUANTILES, rows, strict=False)],
                "fixed": [{"loops": t, **row} for t, row in enumerate(rows[len(QUANTILES) :], start=1)],
                **by_difficulty(seen["exits/expected"][0], seen["exits/exact"], bins),
            }
        }


def _sums(logits: Tensor, step: Tensor, batch: Batch, likelihood: Likelihood) -> Tensor:
    """Sums (4,) of steps, right cells and CE over scored cells, and of exact puzzles, each cell read at its step."""
    index = (step - 1)[None, :, :, None].expand(1, *logits.shape[1:])
    chosen = logits.gather(0, index).squeeze(0)
    scored = batch.labels != IGNORE
    right = (chosen.argmax(-1) == batch.labels) & scored
    exact = (right == scored).all(-1) & scored.any(-1)
    parts = ((step * scored).sum(), right.sum(), cell_loss(chosen, batch.labels, likelihood).sum(), exact.sum())
    return torch.stack([part.to(widest_float(part.device)) for part in parts])


def by_difficulty(
    expected: np.ndarray, exact: np.ndarray, bins: tuple[str, list[str], np.ndarray] | None
) -> dict[str, Any]:
    """Whether the gate spends its loops on hard puzzles: `expected` loops (N,) against difficulty and `exact` (T, N).

    `needed`: the loop from which on a puzzle stays right, of those right at the last; Spearman's ρ with `expected`.
    """
    solved = exact[-1]
    needed = 1 + np.where(exact, 0, np.arange(1, len(exact) + 1)[:, None]).max(0)
    varies = all(len(np.unique(values[solved])) > 1 for values in (expected, needed))
    found: dict[str, Any] = {
        "rank_correlation": float(spearmanr(expected[solved], needed[solved]).statistic) if varies else None,
        "expected_of_solved": float(expected[solved].mean()) if solved.any() else None,
        "expected_of_unsolved": float(expected[~solved].mean()) if not solved.all() else None,
    }
    if bins is None:
        return found | {"by_difficulty": None}
    name, names, index = bins
    rows = []
    for b, label in enumerate(names):
        inside = index == b
        right = inside & solved
        rows.append(
            {
                "bin": label,
                "puzzles": int(inside.sum()),
                "expected_loops": float(expected[inside].mean()),
                "needed_loops": float(needed[right].mean()) if right.any() else None,
                "exact": float(solved[inside].mean()),
            }
        )
    return found | {"by_difficulty": {"by": name, "bins": rows}}


def _records(results: Results) -> list[dict[str, Any]]:
    ways = (("fixed", "loops"), ("gate", "quantile"))
    return [
        {"way": kind, "at": row[at], **{key: row[key] for key in ("mean_loops", "exact", "cell", "ce")}}
        for kind, at in ways
        for row in results["exits"][kind]
    ]


def _tables(results: Results) -> list[Table]:
    rows = [
        [f"{row['way']} {row['at']:g}", *cells(row, mean_loops=".2f", exact=".1%", cell=".1%", ce=".4f")]
        for row in _records(results)
    ]
    found = [Table("leaving by the exit gate", ("way", "mean loops", "exact", "cells", "CE (nats)"), rows)]
    exits = results["exits"]
    if exits.get("by_difficulty"):
        bins = [
            [row["bin"], *cells(row, puzzles="", expected_loops=".2f", needed_loops=".2f", exact=".1%")]
            for row in exits["by_difficulty"]["bins"]
        ]
        columns = (exits["by_difficulty"]["by"], "puzzles", "loops by the gate", "loops needed", "exact at the last")
        found.append(Table("loops by difficulty", columns, bins))
    return found


def _charts(results: Results) -> list[Chart]:
    found = results["exits"]

    def accuracy(axes: Axes) -> None:
        for kind, colour, style in (("fixed", GREY, "s--"), ("gate", BLUE, "o-")):
            rows = sorted(found[kind], key=lambda row: row["mean_loops"])
            axes.plot([r["mean_loops"] for r in rows], [r["exact"] for r in rows], style, color=colour, label=kind)
        axes.set(xlabel="mean loops of a cell")
        shares_axis(axes, "exact")
        legend(axes)

    def leaving(axes: Axes) -> None:
        axes.bar(range(1, found["loops"] + 1), [p or 0 for p in found["p"]], color=BLUE)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        axes.set(xlabel="loop t", ylabel="mean p(t)")

    told = "; ".join(
        f"{r['way']} {r['at']:g}: {share(r['exact'])}, {number(r['mean_loops'])} loops" for r in _records(results)
    )
    chances = ", ".join(f"{number(p, '.2f')} at loop {t}" for t, p in enumerate(found["p"], start=1))
    return [Chart("exact against mean loops", told, accuracy), Chart("where the gate leaves", chances, leaving)]


NOTE = """A cell leaves at the first loop where the gate's distribution exceeds the quantile, and keeps what it said
there; fixed: all leave after so many loops. p(t): the chance of leaving after loop t, mean over the scored cells. Loops
by the gate: Σ t·p(t) of a puzzle; loops needed: from which on it stays right, of those right at the last loop."""

EXITS = Section("exits", "Leaving by the exit gate", _tables, {"exits": _charts}, lambda _: NOTE, place=60)
