"""An exit gate at work."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from reason.report.figure import BLUE
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
    return [Table("leaving by the exit gate", ("way", "mean loops", "exact", "cells", "CE (nats)"), rows)]


def plot(figure: Figure, results: Results) -> None:
    """Accuracy against mean loops, and where the gate leaves."""
    left, right = figure.subplots(1, 2)
    found = results["exits"]
    for kind, colour, marker in (("fixed", "grey", "s"), ("gate", BLUE, "o")):
        rows = sorted(found[kind], key=lambda row: row["mean_loops"])
        left.plot([r["mean_loops"] for r in rows], [r["exact"] for r in rows], marker, color=colour, ls="-", label=kind)
    left.set(xlabel="mean loops of a cell", ylabel="exact", ylim=(0, 1.02))
    left.grid(alpha=0.25)
    left.legend(loc="lower right")
    right.bar(range(1, found["loops"] + 1), [p or 0 for p in found["p"]], color=BLUE)
    right.set(xlabel="loop t", ylabel="mean p(t)", xticks=range(1, found["loops"] + 1))


NOTE = """A cell leaves at the first loop where the gate's distribution exceeds the quantile, and keeps what it said
there; fixed: all leave after so many loops. p(t): the chance of leaving after loop t, mean over the scored cells."""

EXITS = Section("exits", "Leaving by the exit gate", tables, {"exits": plot}, {"exits": records}, lambda _: NOTE)
