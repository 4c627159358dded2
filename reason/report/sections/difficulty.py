"""Accuracy by difficulty."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from reason.report.figure import steps_axis
from reason.report.section import Results, Section, Table, interval, share, wilson_interval


def tables(results: Results) -> list[Table]:
    """A row a bin: exact at step 1, at the trained step and at the last one with its interval."""
    trained, found = min(results["trained_steps"], results["steps"]), results["difficulty"]
    last = f"at {results['steps']}"
    columns = (found["by"], "puzzles", "exact at step 1", f"at {trained}", last, "95 % interval")
    rows = [
        [
            row["bin"],
            str(row["puzzles"]),
            *(share(row["exact_by_step"][step]) for step in (0, trained - 1, -1)),
            interval(row["exact_by_step"][-1], row["puzzles"]),
        ]
        for row in found["bins"]
    ]
    return [Table("by difficulty", columns, rows)]


def plot(figure: Figure, results: Results) -> None:
    """Exact by step, a line for every bin."""
    axes = figure.subplots()
    bins = results["difficulty"]["bins"]
    for row, colour in zip(bins, plt.get_cmap("viridis")(np.linspace(0.3, 0.8, len(bins))), strict=True):
        steps = range(1, results["steps"] + 1)
        label = f"{row['bin']} ({row['puzzles']})"
        axes.plot(steps, row["exact_by_step"], marker="o", ms=2.5, color=colour, label=label)
    axes.set(ylabel="exact", ylim=(-0.02, 1.02), title=f"by {results['difficulty']['by']}")
    steps_axis(axes, results)
    axes.legend(title="(puzzles)", fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))


def records(results: Results) -> list[dict[str, Any]]:
    """A line for every bin and step."""
    found = []
    for row in results["difficulty"]["bins"]:
        for index, exact in enumerate(row["exact_by_step"]):
            low, high = wilson_interval(exact, row["puzzles"])
            record = {"bin": row["bin"], "puzzles": row["puzzles"], "step": index + 1, "exact": exact}
            valid = row["valid_by_step"]
            found.append(record | {"exact_low": low, "exact_high": high, "valid": valid and valid[index]})
    return found


DIFFICULTY = Section("difficulty", "By difficulty", tables, {"difficulty": plot}, {"difficulty": records})
