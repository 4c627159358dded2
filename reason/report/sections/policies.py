"""When to stop."""

from __future__ import annotations

from matplotlib.axes import Axes

from reason.report.axes import doubling_axis, errorbars, label_ends, shares_axis
from reason.report.chart import Chart
from reason.report.palette import styled
from reason.report.section import Results, Section, Table, interval, share

COLUMNS = ("policy", "threshold", "exact", "95 % interval", "rules hold", "mean steps", "p95", "speedup")


def tables(results: Results) -> list[Table]:
    """One row a policy."""
    found = results["policies"]
    rows = [
        [
            row["name"],
            "never" if row["threshold"] is None else f"{row['threshold']:.4g}",
            share(row["exact"]),
            interval(row["exact"], found["puzzles"]),
            share(row["valid"]),
            f"{row['mean_steps']:.2f}",
            f"{row['p95_steps']:.0f}",
            f"{row['speedup']:.2f}×",
        ]
        for row in found["rows"]
    ]
    return [Table(f"stopping policies, calibrated on {found['calibrated_on']}", COLUMNS, rows)]


def charts(results: Results) -> list[Chart]:
    """Mean steps against exact: every signal's thresholds as a line, calibrated policies as points with intervals."""
    found = results["policies"]
    rows = {signal: [row for row in found["rows"] if row["signal"] == signal] for signal in found["frontiers"]}

    def draw(axes: Axes) -> None:
        for index, (signal, points) in enumerate(found["frontiers"].items()):
            colour, mark = styled(index)["color"], styled(index)["marker"]
            mean, exact = [p["mean_steps"] for p in points], [p["exact"] for p in points]
            axes.plot(mean, exact, label=signal, markevery=max(1, len(points) // 6), **styled(index))
            for row in rows[signal]:
                filled = {} if row["name"].endswith("calibrated") else {"mfc": "none"}
                at = {"color": colour, "marker": mark, "ms": 6, **filled}
                errorbars(axes, [row["mean_steps"]], [row["exact"]], found["puzzles"], **at)
        shares_axis(axes, "exact", whole=False)
        doubling_axis(axes, results["steps"], "mean supervision steps")
        label_ends(axes)

    says = "; ".join(f"{r['name']}: {share(r['exact'])} after {r['mean_steps']:.1f} steps" for r in found["rows"])
    return [Chart("exact against mean steps", says, draw)]


def note(results: Results) -> str:
    """What the columns mean."""
    found = results["policies"]
    return (
        f"Calibrated on {found['calibrated_on']}, reported on {found['puzzles']} puzzles. Speedup: seconds of all "
        "steps over seconds with finished puzzles leaving the batch. Lines: every threshold of a signal; filled "
        "points: calibrated, open: as trained or fixed; bars: Wilson's 95 % interval."
    )


POLICIES = Section(
    "policies",
    "When to stop",
    tables,
    {"policies": charts},
    {"policies": lambda results: results["policies"]["rows"]},
    note,
)
