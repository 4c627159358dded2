"""More than one try."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from matplotlib.axes import Axes

from reason.report.axes import doubling_axis, errorbars, label_ends, shares_axis
from reason.report.chart import Chart
from reason.report.palette import styled
from reason.report.section import Results, Section, Table, share

WAYS = {  # of choosing among tries; the last needs the rules
    "majority": "majority",
    "q": "highest q",
    "residual": "least residual",
    "any": "any right",
    "verified": "verified by the rules",
}
NEEDS_MORE = ("any", "verified")  # than the model's own words
TITLES = {"initial": "random initial states", "symmetry": "symmetries of the puzzle", "noise": "noise on the state"}


def records(results: Results) -> list[dict[str, Any]]:
    """A line for every variation and number of tries."""
    return [{"varied": kind, **row} for kind, section in results["restarts"].items() for row in section["rows"]]


def tables(results: Results) -> list[Table]:
    """One row a variation and number of tries."""
    rows = [[row["varied"], str(row["tries"]), *(share(row[way]) for way in WAYS)] for row in records(results)]
    return [Table("more than one try: exact", ("varied", "tries", *WAYS.values()), rows)]


def charts(results: Results) -> list[Chart]:
    """Exact against the number of tries, a chart for every variation."""

    def drawing(rows: list[dict[str, Any]]) -> Callable[[Axes], None]:
        def draw(axes: Axes) -> None:
            barred: set[tuple[int, float]] = set()
            for index, (way, label) in enumerate(WAYS.items()):
                some = [row for row in rows if row[way] is not None]
                style = styled(index) | {"linestyle": "--" if way in NEEDS_MORE else "-"}
                if some:
                    axes.plot([row["tries"] for row in some], [row[way] for row in some], label=label, **style)
                points = [(row["tries"], row[way]) for row in some if (row["tries"], row[way]) not in barred]
                if points:  # where ways give the same, one bar is enough
                    barred.update(points)
                    tries, exact = zip(*points, strict=True)
                    aside = [1.02**index * count for count in tries]
                    errorbars(axes, aside, exact, results["puzzles"], fmt="none", color=style["color"])
            shares_axis(axes, "exact", whole=False)
            doubling_axis(axes, rows[-1]["tries"], "tries")
            label_ends(axes)

        return draw

    def says(rows: list[dict[str, Any]]) -> str:
        last = rows[-1]
        told = ", ".join(f"{label} {share(last[way])}" for way, label in WAYS.items() if last[way] is not None)
        return f"{share(rows[0]['majority'])} with one try; with {last['tries']}: {told}"

    kinds = results["restarts"].items()
    return [Chart(TITLES[kind], says(found["rows"]), drawing(found["rows"])) for kind, found in kinds]


NOTE = """The first try is the plain pass. “Verified” takes the first answer that obeys the rules; the columns before it
use neither rules nor labels, save “any right”, the share that no choice can exceed. Bars: Wilson's 95 % interval."""

RESTARTS = Section("restarts", "More than one try", tables, {"restarts": charts}, {"restarts": records}, lambda _: NOTE)
