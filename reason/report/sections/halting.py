"""Whether the halting head knows what is exact."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from reason.report.figure import BLUE, GREEN, RED, numbers, steps_axis
from reason.report.section import Results, Section, Table, number, share, shown_steps


def tables(results: Results) -> list[Table]:
    """AUC and calibration error by step."""
    head = results["halting"]
    rows = [
        [str(step), number(head["auc_by_step"][step - 1], ".3f"), share(head["ece_by_step"][step - 1])]
        for step in shown_steps(results["steps"], results["trained_steps"])
    ]
    return [Table("halting head against exact", ("step", "AUC", "calibration error"), rows)]


def plot(figure: Figure, results: Results) -> None:
    """What the halting head says against what is true, and AUC and calibration error by step."""
    left, right = figure.subplots(1, 2)
    head = results["halting"]
    rows = head["reliability"]
    left.plot([0, 1], [0, 1], color="grey", ls=":", lw=1)
    sizes = [12 + 200 * row["puzzles"] / results["puzzles"] for row in rows]
    left.scatter([row["said"] for row in rows], [row["true"] for row in rows], s=sizes, color=BLUE, alpha=0.8)
    left.set(xlabel="σ(q), mean of its bin", ylabel="share exact", title=f"at step {head['step']}")
    left.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03))
    left.grid(alpha=0.25)
    steps = np.arange(1, results["steps"] + 1)
    for name, colour, label in (("auc", GREEN, "AUC"), ("ece", RED, "calibration error")):
        right.plot(steps, numbers(head[f"{name}_by_step"]), marker="o", ms=2.5, color=colour, label=label)
    right.set(ylim=(-0.03, 1.03), title="does q know what is exact?")
    steps_axis(right, results)
    right.legend()


NOTE = """Left: σ(q) against the share of puzzles that are exact, in bins of 1/15; a dot on the diagonal is honest.
Right: the chance that an exact puzzle has the higher q (AUC), and the mean distance from the diagonal."""

HALTING = Section("halting", "Does the halting head know?", tables, {"halting": plot}, note=lambda _: NOTE)
