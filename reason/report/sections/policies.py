"""When to stop."""

from __future__ import annotations

import matplotlib
from matplotlib.figure import Figure

from reason.report.figure import COLOURS
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


def plot(figure: Figure, results: Results) -> None:
    """Mean steps against exact: every signal's thresholds as a line, calibrated policies as points."""
    axes = figure.subplots()
    for (signal, points), colour in zip(results["policies"]["frontiers"].items(), COLOURS, strict=False):
        mean, exact = [p["mean_steps"] for p in points], [p["exact"] for p in points]
        axes.plot(mean, exact, color=colour, lw=1.2, alpha=0.7, label=signal)
        for row in results["policies"]["rows"]:
            if row["signal"] == signal:
                mark = "o" if row["name"].endswith("calibrated") else "s"
                axes.plot(row["mean_steps"], row["exact"], mark, ms=6, color=colour)
    axes.set(xlabel="mean steps", ylabel="exact", xscale="log", title="stopping policies (points: those of the table)")
    axes.xaxis.set_major_formatter(matplotlib.ticker.FormatStrFormatter("%g"))
    axes.xaxis.set_minor_formatter(matplotlib.ticker.NullFormatter())
    axes.set_xticks([t for t in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512) if t <= results["steps"]])
    axes.grid(alpha=0.25)
    axes.legend(fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))


def note(results: Results) -> str:
    """What the columns mean."""
    found = results["policies"]
    return (
        f"Calibrated on {found['calibrated_on']}, reported on {found['puzzles']} puzzles. Speedup: seconds of all "
        "steps over seconds with finished puzzles leaving the batch."
    )


POLICIES = Section(
    "policies",
    "When to stop",
    tables,
    {"policies": plot},
    {"policies": lambda results: results["policies"]["rows"]},
    note,
)
