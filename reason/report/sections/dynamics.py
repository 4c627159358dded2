"""What the dynamics of a few puzzles do."""

from __future__ import annotations

from collections import Counter
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from reason.report.figure import BLUE, RED, numbers
from reason.report.section import Results, Section, Table, number


def tables(results: Results) -> list[Table]:
    """How the probed trajectories end, and the spectra of a few."""
    found = results["dynamics"]
    ends = Counter((_state(puzzle), puzzle["end"]) for puzzle in found["puzzles"])
    rows = [[state, end, str(count)] for (state, end), count in sorted(ends.items(), reverse=True)]
    tables = [Table("how the probed trajectories end", ("puzzle", "end", "count"), rows, left=(0, 1))]
    spectra = [
        [str(row["example"]), _state(row), *(number(row[key], ".3f") for key in ("radius", "trace"))]
        for row in found["spectra"]
    ]
    if spectra:
        columns = ("puzzle", "", "spectral radius", "trace / N")
        tables.append(Table(f"spectra of “{found['map']}” at the last step", columns, spectra, left=(0, 1)))
    return tables


def _state(row: Results) -> str:
    return "solved" if row["solved"] else "failed"


def plot(figure: Figure, results: Results) -> None:
    """Residuals and norms by step, and how a push dies out, of solved and failed puzzles."""
    figure.set_size_inches(7, 5.2)
    (upper, size), (push, low) = figure.subplots(2, 2)
    found = results["dynamics"]
    drawn: set[bool] = set()
    for puzzle, returns, swings in zip(found["puzzles"], found["returns"], found["oscillation"], strict=True):
        solved = puzzle["solved"]
        line = {"color": BLUE if solved else RED, "lw": 0.9, "alpha": 0.7}
        label = None if solved in drawn else _state(puzzle)
        drawn.add(solved)
        upper.plot(range(1, len(puzzle["residual"]) + 1), numbers(puzzle["residual"]), label=label, **line)
        size.plot(numbers(puzzle["norm"]), **line)
        push.plot(numbers(returns), **line)
        low.plot(range(1, len(swings) + 1), numbers(swings), marker="o", ms=2, **line)
    upper.set(yscale="log", title="residual ‖z′ − z‖/‖z‖")
    upper.axhline(found["tolerance"], color="grey", ls=":", lw=1)
    upper.legend(fontsize="small")
    size.set(title="norm ‖z‖")
    push.set(yscale="log", title="distance of a pushed state", xlabel="steps after the push")
    low.set(title="oscillation of the low state", xlabel="update inside a step")
    low.axhline(1, color="grey", ls=":", lw=1)
    for axes in (upper, size, push, low):
        axes.grid(alpha=0.25)
        axes.xaxis.set_major_locator(matplotlib.ticker.MaxNLocator(integer=True, min_n_ticks=1))


def planes(figure: Figure, results: Results) -> None:
    """Each probed trajectory in its own two principal components, from a circle to a square."""
    puzzles = results["dynamics"]["puzzles"]
    columns = min(4, len(puzzles))
    rows = -(-len(puzzles) // columns)
    figure.set_size_inches(7, 0.4 + 1.8 * rows)
    grid = figure.subplots(rows, columns, squeeze=False).flatten()
    for axes in grid[len(puzzles) :]:
        axes.axis("off")
    for axes, puzzle in zip(grid, puzzles, strict=False):
        x, y = np.transpose([numbers(point) for point in puzzle["plane"]])
        colour = BLUE if puzzle["solved"] else RED
        axes.plot(x, y, color=colour, lw=0.8, alpha=0.8, marker=".", ms=2.5)
        axes.plot(x[0], y[0], "o", mfc="none", color=colour, ms=6)
        axes.plot(x[-1], y[-1], "s", color=colour, ms=5)
        axes.set_title(f"{puzzle['example']}: {puzzle['end']}\n{sum(puzzle['explained']):.0%} of variance", fontsize=7)
        axes.set_xticks([])
        axes.set_yticks([])


def records(results: Results) -> list[dict[str, Any]]:
    """A line for every probed puzzle and step."""
    return [
        {
            "example": puzzle["example"],
            "solved": int(puzzle["solved"]),
            "end": puzzle["end"],
            "step": step,
            "residual": puzzle["residual"][step - 1] if step else None,
            "norm": puzzle["norm"][step],
            "plane_1": puzzle["plane"][step][0],
            "plane_2": puzzle["plane"][step][1],
        }
        for puzzle in results["dynamics"]["puzzles"]
        for step in range(len(puzzle["norm"]))
    ]


NOTE = """Blue: solved, red: failed. A spectral radius above 1 spreads along the map's fastest direction; “–”: not
converged. Trajectories: each in its own two principal components, from the circle to the square."""

DYNAMICS = Section(
    "dynamics",
    "Dynamics",
    tables,
    {"dynamics": plot, "trajectories": planes},
    {"dynamics": records},
    lambda _: NOTE,
)
