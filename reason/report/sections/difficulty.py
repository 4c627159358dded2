"""Accuracy by difficulty."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes

from reason.report.axes import by_step, label_ends, shares_axis, steps_axis
from reason.report.chart import Chart
from reason.report.palette import styled
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


def charts(results: Results) -> list[Chart]:
    """Exact by step, a line for every bin."""
    bins = results["difficulty"]["bins"]

    def draw(axes: Axes) -> None:
        for index, row in enumerate(bins):
            exact = row["exact_by_step"]
            every = max(1, len(exact) // 16)
            label = f"{row['bin']} (n {row['puzzles']})"
            axes.plot(range(1, len(exact) + 1), exact, label=label, markevery=every, **styled(index))
        shares_axis(axes, "exact")
        steps_axis(axes, results)
        label_ends(axes)

    says = "; ".join(f"{row['bin']}: {by_step(row['exact_by_step'], results)}" for row in bins)
    return [Chart(f"exact by {results['difficulty']['by']}", says, draw)]


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


DIFFICULTY = Section("difficulty", "By difficulty", tables, {"difficulty": charts}, {"difficulty": records})
