"""Accuracy by supervision step."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes

from reason.report.axes import by_step, errors_axis, label_ends, plot_error, plot_exact, shares_axis, steps_axis
from reason.report.chart import Chart
from reason.report.palette import GREEN, ORANGE
from reason.report.section import Results, Section, Table, interval, rows_shown, share, wilson_interval

COLUMNS = ("step", "exact", "95 % interval", "rules hold", "cells", "says halt", "")


def tables(results: Results) -> list[Table]:
    """A row for every step."""
    nothing, trained = [None] * results["steps"], results["trained_steps"]
    valid, halted = (results.get(f"{key}_by_step") or nothing for key in ("valid", "halted"))
    rows = [
        [
            str(step),
            share(exact),
            interval(exact, results["puzzles"]),
            share(valid[step - 1]),
            share(results["cell_by_step"][step - 1]),
            share(halted[step - 1]),
            "← trained to here" if step == trained else "",
        ]
        for step, exact in enumerate(results["exact_by_step"], start=1)
    ]
    shown = rows_shown(results["steps"], trained)
    return [Table("accuracy by supervision step", COLUMNS, rows, left=(6,), first=shown)]


def charts(results: Results) -> list[Chart]:
    """The plain curve, and what is wrong on a logarithmic axis."""
    exact, puzzles, steps = results["exact_by_step"], results["puzzles"], range(1, results["steps"] + 1)
    valid = results.get("valid_by_step")

    def curve(axes: Axes) -> None:
        plot_exact(axes, exact, puzzles, "exact")
        axes.plot(steps, results["cell_by_step"], color=ORANGE, ls="--", label="cells")
        if valid and valid != exact:
            axes.plot(steps, valid, color=GREEN, ls=":", lw=2, label="rules hold")
        shares_axis(axes, f"share of {puzzles:,} puzzles ({results['split']})")
        steps_axis(axes, results)
        label_ends(axes)

    def error(axes: Axes) -> None:
        plot_error(axes, exact, puzzles, "exact")
        errors_axis(axes, puzzles)
        steps_axis(axes, results)

    return [
        Chart("exact: whole puzzles right", by_step(exact, results), curve),
        Chart("error, 1 − exact", by_step([1 - value for value in exact], results), error),
    ]


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
whose halting head would stop here. Intervals are Wilson's at 95 %. Open mark: no puzzle is wrong, drawn below 1/n."""

ACCURACY = Section(
    "exact_by_step",
    "Accuracy by supervision step",
    tables,
    {"accuracy_by_step": charts},
    {"accuracy_by_step": records},
    lambda _: NOTE,
)
