"""Accuracy by supervision step."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from reason.report.figure import BLUE, GREEN, ORANGE, steps_axis
from reason.report.section import Results, Section, Table, interval, share, shown_steps, wilson_interval

COLUMNS = ("step", "exact", "95 % interval", "rules hold", "cells", "says halt", "")


def tables(results: Results) -> list[Table]:
    """A row for every step worth one."""
    nothing, trained = [None] * results["steps"], results["trained_steps"]
    valid, halted = (results.get(f"{key}_by_step") or nothing for key in ("valid", "halted"))
    rows = [
        [
            str(step),
            share(results["exact_by_step"][step - 1]),
            interval(results["exact_by_step"][step - 1], results["puzzles"]),
            share(valid[step - 1]),
            share(results["cell_by_step"][step - 1]),
            share(halted[step - 1]),
            "← trained to here" if step == trained else "",
        ]
        for step in shown_steps(results["steps"], trained)
    ]
    return [Table("accuracy by supervision step", COLUMNS, rows, left=(6,))]


def plot(figure: Figure, results: Results) -> None:
    """Exact with its interval, rule-valid and cell accuracy against supervision steps."""
    axes = figure.subplots()
    steps, exact = range(1, results["steps"] + 1), results["exact_by_step"]
    low, high = np.transpose([wilson_interval(value, results["puzzles"]) for value in exact])
    axes.plot(steps, exact, marker="o", ms=3, color=BLUE, label="exact (whole puzzle right)")
    axes.fill_between(steps, low, high, color=BLUE, alpha=0.2, lw=0)
    axes.plot(steps, results["cell_by_step"], color=ORANGE, label="cells")
    valid = results.get("valid_by_step")
    if valid and valid != exact:
        axes.plot(steps, valid, color=GREEN, ls="--", label="rules hold")
    axes.set(ylabel=f"accuracy ({results['split']} split)", ylim=(0, 1.02))
    axes.set_title(results["run"].replace("$", r"\$"))
    steps_axis(axes, results)
    axes.legend(loc="lower right")


def records(results: Results) -> list[dict[str, Any]]:
    """A line for every step."""
    found = []
    for index, exact in enumerate(results["exact_by_step"]):
        low, high = wilson_interval(exact, results["puzzles"])
        record = {"step": index + 1, "exact": exact, "exact_low": low, "exact_high": high}
        record["cell"] = results["cell_by_step"][index]
        for key in ("halted", "valid", "loss", "residual"):
            if results.get(f"{key}_by_step"):
                record[key] = results[f"{key}_by_step"][index]
        for key in ("auc", "ece"):
            if results.get("halting"):
                record[key] = results["halting"][f"{key}_by_step"][index]
        found.append(record)
    return found


NOTE = """Each step applies the same network again. Dotted: the steps taken in training. “Says halt”: the share
whose halting head would stop here. Intervals are Wilson's at 95 %."""

ACCURACY = Section(
    "exact_by_step",
    "Accuracy by supervision step",
    tables,
    {"accuracy_by_step": plot},
    {"accuracy_by_step": records},
    lambda _: NOTE,
)
