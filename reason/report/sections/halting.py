"""Whether the halting head knows what is exact."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from reason.report.axes import label_ends, numbers, shares_axis, steps_axis
from reason.report.chart import Chart
from reason.report.palette import BLUE, GREEN, GREY, PINK
from reason.report.section import Results, Section, Table, number, rows_shown, share


def tables(results: Results) -> list[Table]:
    """AUC and calibration error by step."""
    head = results["halting"]
    rows = [
        [str(step), number(auc, ".3f"), share(ece)]
        for step, (auc, ece) in enumerate(zip(head["auc_by_step"], head["ece_by_step"], strict=True), start=1)
    ]
    shown = rows_shown(results["steps"], results["trained_steps"])
    return [Table("halting head against exact", ("step", "AUC", "calibration error"), rows, first=shown)]


def charts(results: Results) -> list[Chart]:
    """What the halting head says against what is true, and AUC and calibration error by step."""
    head = results["halting"]
    rows = head["reliability"]

    def reliability(axes: Axes) -> None:
        axes.plot([0, 1], [0, 1], color=GREY, ls=":", lw=1)
        sizes = [12 + 200 * row["puzzles"] / results["puzzles"] for row in rows]
        axes.scatter([row["said"] for row in rows], [row["true"] for row in rows], s=sizes, color=BLUE, alpha=0.8)
        axes.set(xlabel="σ(q), mean of its bin", xlim=(-0.05, 1.05))
        shares_axis(axes, "share exact")
        axes.set_ylim(-0.05, 1.05)

    def by_steps(axes: Axes) -> None:
        steps = np.arange(1, results["steps"] + 1)
        axes.plot(steps, numbers(head["auc_by_step"]), color=GREEN, label="AUC")
        axes.plot(steps, numbers(head["ece_by_step"]), color=PINK, ls="--", label="calibration\nerror")
        axes.set(ylim=(-0.03, 1.03))
        steps_axis(axes, results)
        label_ends(axes)

    trained = min(results["trained_steps"], results["steps"])
    auc, ece = (head[f"{name}_by_step"][trained - 1] for name in ("auc", "ece"))
    told = "; ".join(f"{row['puzzles']} puzzles at σ(q) {row['said']:.2f}, {share(row['true'])} exact" for row in rows)
    return [
        Chart(f"σ(q) against the share exact, step {head['step']}", told, reliability),
        Chart("AUC and calibration error", f"{number(auc, '.3f')} and {share(ece)} at step {trained}", by_steps),
    ]


NOTE = """Left: σ(q) against the share of puzzles that are exact, in bins of 1/15; a dot on the diagonal is honest.
Right: the chance that an exact puzzle has the higher q (AUC), and the mean distance from the diagonal."""

HALTING = Section("halting", "Does the halting head know?", tables, {"halting": charts}, note=lambda _: NOTE)
