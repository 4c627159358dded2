"""An exit gate at work."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from reason.report.axes import label_ends, shares_axis
from reason.report.chart import Chart
from reason.report.palette import BLUE, GREY
from reason.report.section import Results, Section, Table, number, share


def records(results: Results) -> list[dict[str, Any]]:
    """A line for each quantile of the gate and each fixed number of loops."""
    ways = (("fixed", "loops"), ("gate", "quantile"))
    return [
        {"way": kind, "at": row[at], **{key: row[key] for key in ("mean_loops", "exact", "cell", "ce")}}
        for kind, at in ways
        for row in results["exits"][kind]
    ]


def tables(results: Results) -> list[Table]:
    """The same, as text."""
    rows = [
        [
            f"{row['way']} {row['at']:g}",
            number(row["mean_loops"], ".2f"),
            share(row["exact"]),
            share(row["cell"]),
            number(row["ce"], ".4f"),
        ]
        for row in records(results)
    ]
    found = [Table("leaving by the exit gate", ("way", "mean loops", "exact", "cells", "CE (nats)"), rows)]
    exits = results["exits"]
    if exits.get("by_difficulty"):
        bins = [
            [
                row["bin"],
                str(row["puzzles"]),
                number(row["expected_loops"], ".2f"),
                number(row["needed_loops"], ".2f"),
                share(row["exact"]),
            ]
            for row in exits["by_difficulty"]["bins"]
        ]
        columns = (exits["by_difficulty"]["by"], "puzzles", "loops by the gate", "loops needed", "exact at the last")
        found.append(Table("loops by difficulty", columns, bins))
    return found


def charts(results: Results) -> list[Chart]:
    """Accuracy against mean loops, and where the gate leaves."""
    found = results["exits"]

    def accuracy(axes: Axes) -> None:
        for kind, colour, style in (("fixed", GREY, "s--"), ("gate", BLUE, "o-")):
            rows = sorted(found[kind], key=lambda row: row["mean_loops"])
            axes.plot([r["mean_loops"] for r in rows], [r["exact"] for r in rows], style, color=colour, label=kind)
        axes.set(xlabel="mean loops of a cell")
        shares_axis(axes, "exact")
        label_ends(axes)

    def leaving(axes: Axes) -> None:
        axes.bar(range(1, found["loops"] + 1), [p or 0 for p in found["p"]], color=BLUE)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        axes.set(xlabel="loop t", ylabel="mean p(t)")

    told = "; ".join(
        f"{r['way']} {r['at']:g}: {share(r['exact'])}, {number(r['mean_loops'])} loops" for r in records(results)
    )
    chances = ", ".join(f"{number(p, '.2f')} at loop {t}" for t, p in enumerate(found["p"], start=1))
    return [Chart("exact against mean loops", told, accuracy), Chart("where the gate leaves", chances, leaving)]


NOTE = """A cell leaves at the first loop where the gate's distribution exceeds the quantile, and keeps what it said
there; fixed: all leave after so many loops. p(t): the chance of leaving after loop t, mean over the scored cells. Loops
by the gate: Σ t·p(t) of a puzzle; loops needed: from which on it stays right, of those right at the last loop."""

EXITS = Section("exits", "Leaving by the exit gate", tables, {"exits": charts}, {"exits": records}, lambda _: NOTE)
