"""Plots of results: each drawn on a figure in an ink that its page decides."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reason.report.tables import wilson_interval

Results = Mapping[str, Any]
Plot = Callable[[Figure, Results], None]

INK = "#12345a"  # stands for the page's own text colour in an SVG
BLUE, ORANGE, GREEN, RED = "#3b82c4", "#e07b39", "#3a9d6a", "#d1495b"
COLOURS = (BLUE, ORANGE, GREEN, RED, "#8e6bbf", "#b8860b", "#4fb3bf", "#c2649a")


def plots_of(results: Results) -> dict[str, Plot]:
    """The plots that the results have numbers for, by file name."""
    found: dict[str, Plot] = {"accuracy_by_step": accuracy}
    sections: dict[str, tuple[str, Plot]] = {
        "difficulty": ("difficulty", difficulty),
        "halting": ("halting", halting),
        "policies": ("policies", pareto),
        "restarts": ("restarts", restarts),
    }
    found |= {name: plot for name, (section, plot) in sections.items() if results.get(section)}
    if results.get("dynamics"):
        found |= {"dynamics": dynamics, "trajectories": planes}
    return found


def save_png(plot: Plot, results: Results, path: Path) -> None:
    """The plot as a picture on white."""
    figure = _drawn(plot, results, "#222222")
    figure.savefig(path, facecolor="white")
    plt.close(figure)


def svg(plot: Plot, results: Results, name: str) -> str:
    """The plot as an <svg> without a background, in the text colour and font of the page that holds it."""
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        figure = _drawn(plot, results, INK)
        out = StringIO()
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
        plt.close(figure)
    text = out.getvalue()
    text = text[text.index("<svg") :].replace(INK, "currentColor")
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S)
    text = re.sub(r' xmlns(:xlink)?="[^"]*"', "", text)
    text = text.replace("xlink:href", "href")
    text = re.sub(r"font: ([\d.]+)px[^;\"]*", r"font-size: \1px", text)
    return re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1))


def _drawn(plot: Plot, results: Results, ink: str) -> Figure:
    style: dict[Any, Any] = {
        "text.color": ink, "axes.labelcolor": ink, "axes.edgecolor": ink, "xtick.color": ink, "ytick.color": ink,
        "axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False, "text.parse_math": False,
        "axes.titlesize": "medium", "font.size": 11,
    }  # fmt: skip
    with matplotlib.rc_context(style):
        figure = plt.figure(figsize=(7, 4), dpi=150, layout="constrained")
        plot(figure, results)
    return figure


def _steps_axis(axes: Axes, results: Results) -> None:
    axes.xaxis.set_major_locator(matplotlib.ticker.MaxNLocator(integer=True, min_n_ticks=1))
    axes.set_xlabel("supervision steps")
    if results["trained_steps"] <= results["steps"]:
        axes.axvline(results["trained_steps"], color="grey", ls=":", lw=1)
    axes.grid(alpha=0.25)


def accuracy(figure: Figure, results: Results) -> None:
    """Exact with its interval, rule-valid and cell accuracy against supervision steps."""
    axes = figure.subplots()
    steps, exact = range(1, results["steps"] + 1), results["exact_by_step"]
    low, high = np.transpose([wilson_interval(share, results["puzzles"]) for share in exact])
    axes.plot(steps, exact, marker="o", ms=3, color=BLUE, label="exact (whole puzzle right)")
    axes.fill_between(steps, low, high, color=BLUE, alpha=0.2, lw=0)
    axes.plot(steps, results["cell_by_step"], color=ORANGE, label="cells")
    valid = results.get("valid_by_step")
    if valid and valid != exact:
        axes.plot(steps, valid, color=GREEN, ls="--", label="rules hold")
    axes.set(ylabel=f"accuracy ({results['split']} split)", ylim=(0, 1.02))
    axes.set_title(results["run"])
    _steps_axis(axes, results)
    axes.legend(loc="lower right")


def difficulty(figure: Figure, results: Results) -> None:
    """Exact by step, a line for every bin."""
    axes = figure.subplots()
    bins = results["difficulty"]["bins"]
    for row, colour in zip(bins, plt.get_cmap("viridis")(np.linspace(0.3, 0.8, len(bins))), strict=True):
        steps = range(1, results["steps"] + 1)
        label = f"{row['bin']} ({row['puzzles']})"
        axes.plot(steps, row["exact_by_step"], marker="o", ms=2.5, color=colour, label=label)
    axes.set(ylabel="exact", ylim=(-0.02, 1.02), title=f"by {results['difficulty']['by']}")
    _steps_axis(axes, results)
    axes.legend(title="(puzzles)", fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))


def halting(figure: Figure, results: Results) -> None:
    """What the halting head says against what is true, and AUC and calibration error by step."""
    left, right = figure.subplots(1, 2)
    head = results["halting"]
    rows = head["reliability"]
    left.plot([0, 1], [0, 1], color="grey", ls=":", lw=1)
    sizes = [12 + 200 * row["puzzles"] / results["puzzles"] for row in rows]
    left.scatter([row["said"] for row in rows], [row["true"] for row in rows], s=sizes, color=BLUE, alpha=0.8)
    left.set(xlabel="σ(q), mean of its bin", ylabel="share exact", title=f"at step {head['step']}")
    left.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03))
    left.grid(alpha=0.25)
    steps = np.arange(1, results["steps"] + 1)
    for name, colour, label in (("auc", GREEN, "AUC"), ("ece", RED, "calibration error")):
        right.plot(steps, _numbers(head[f"{name}_by_step"]), marker="o", ms=2.5, color=colour, label=label)
    right.set(ylim=(-0.03, 1.03), title="does q know what is exact?")
    _steps_axis(right, results)
    right.legend()


def pareto(figure: Figure, results: Results) -> None:
    """Mean steps against exact: every signal's thresholds as a line, calibrated policies as points."""
    axes = figure.subplots()
    signals = list(results["policies"]["frontiers"])
    for signal, colour in zip(signals, COLOURS, strict=False):
        points = results["policies"]["frontiers"][signal]
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


def restarts(figure: Figure, results: Results) -> None:
    """Exact against the number of tries, a panel for every variation."""
    kinds = results["restarts"]
    panels = np.atleast_1d(figure.subplots(1, len(kinds), sharey=True))
    labels = {
        "majority": "majority", "q": "highest q", "residual": "least residual", "any": "any right",
        "verified": "verified by the rules",
    }  # fmt: skip
    for axes, (kind, section) in zip(panels, kinds.items(), strict=True):
        for (key, label), colour in zip(labels.items(), COLOURS, strict=False):
            rows = [row for row in section["rows"] if row[key] is not None]
            style = "--" if key in ("any", "verified") else "-"
            exact = [row[key] for row in rows]
            axes.plot([row["tries"] for row in rows], exact, style, marker="o", ms=3, color=colour, label=label)
        axes.set(xscale="log", xlabel="tries", title=kind)
        axes.set_xticks([row["tries"] for row in section["rows"]], [str(row["tries"]) for row in section["rows"]])
        axes.minorticks_off()
        axes.grid(alpha=0.25)
    panels[0].set_ylabel("exact")
    panels[-1].legend(fontsize="x-small")


def dynamics(figure: Figure, results: Results) -> None:
    """Residuals and norms by step, and how a push dies out, of solved and failed puzzles."""
    figure.set_size_inches(7, 5.2)
    (upper, size), (push, low) = figure.subplots(2, 2)
    told = results["dynamics"]
    drawn: set[bool] = set()
    for puzzle, returns, swings in zip(told["puzzles"], told["returns"], told["oscillation"], strict=True):
        solved = puzzle["solved"]
        line = {"color": BLUE if solved else RED, "lw": 0.9, "alpha": 0.7}
        label = None if solved in drawn else ("solved" if solved else "failed")
        drawn.add(solved)
        upper.plot(range(1, len(puzzle["residual"]) + 1), _numbers(puzzle["residual"]), label=label, **line)
        size.plot(_numbers(puzzle["norm"]), **line)
        push.plot(_numbers(returns), **line)
        low.plot(range(1, len(swings) + 1), _numbers(swings), marker="o", ms=2, **line)
    upper.set(yscale="log", title="residual ‖z′ − z‖/‖z‖")
    upper.axhline(told["tolerance"], color="grey", ls=":", lw=1)
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
        x, y = np.transpose(puzzle["plane"])
        colour = BLUE if puzzle["solved"] else RED
        axes.plot(x, y, color=colour, lw=0.8, alpha=0.8, marker=".", ms=2.5)
        axes.plot(x[0], y[0], "o", mfc="none", color=colour, ms=6)
        axes.plot(x[-1], y[-1], "s", color=colour, ms=5)
        axes.set_title(f"{puzzle['example']}: {puzzle['end']}\n{sum(puzzle['explained']):.0%} of variance", fontsize=7)
        axes.set_xticks([])
        axes.set_yticks([])


def _numbers(values: Sequence[float | None]) -> np.ndarray:
    """An array with nan where results have null."""
    return np.array([np.nan if value is None else value for value in values])
