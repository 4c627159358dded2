"""Charts: their axes, lines, intervals and labels; as an SVG of the page, or side by side in a PNG."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any, Literal

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, PercentFormatter

from reason.report.palette import GREY, INK, LINE, styled
from reason.report.section import Results, share, wilson_interval

Values = Sequence[float | None] | np.ndarray


def steps_axis(axes: Axes, results: Results) -> None:
    """Set an axis of whole supervision steps, with a dotted line at the trained ones."""
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.set_xlabel("supervision steps")
    if results["trained_steps"] <= results["steps"]:
        axes.axvline(results["trained_steps"], color=GREY, ls=":", lw=1.2, zorder=1)


def curves_by_step(axes: Axes, label: str, results: Results) -> None:
    """Set the axes of shares against supervision steps."""
    shares_axis(axes, label)
    steps_axis(axes, results)
    legend(axes)


def shares_axis(axes: Axes, label: str, whole: bool = True) -> None:
    """Set an axis of shares in per cent: all of [0, 1], or the range of the data."""
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=None))
    axes.set_ylabel(label)
    if whole:
        axes.set_ylim(-0.02, 1.02)


def plot_exact(axes: Axes, exact: Sequence[float], puzzles: int, label: str, index: int = 0) -> None:
    """Plot exact accuracy by step with its Wilson interval."""
    low, high = np.transpose([wilson_interval(value, puzzles) for value in exact])
    plot_band(axes, exact, low, high, label, index)


def plot_error(axes: Axes, exact: Sequence[float], puzzles: int, label: str, index: int = 0) -> None:
    """Plot 1 − exact by step with its Wilson interval, for a logarithmic axis; no error is drawn as half a puzzle."""
    low, high = np.transpose([wilson_interval(value, puzzles) for value in exact])
    least = 0.5 / puzzles
    plot_band(axes, np.maximum(1 - np.array(exact), least), np.maximum(1 - high, least), 1 - low, label, index)


def plot_band(axes: Axes, values: Values, low: Values, high: Values, label: str, index: int = 0) -> None:
    """Plot values by step between their bounds; None is a gap."""
    values, low, high = (np.array(each, float) for each in (values, low, high))  # None becomes nan
    steps, style = np.arange(1, len(values) + 1), styled(index)
    axes.plot(steps, values, label=label, markevery=max(1, len(values) // 16), **style)
    axes.fill_between(steps, low, high, color=style["color"], alpha=0.15, lw=0)


def errors_axis(axes: Axes) -> None:
    """Set a logarithmic axis of shares."""
    log_axis(axes, "y")
    axes.set_ylabel("error, 1 − exact")
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=None))


def log_axis(axes: Axes, which: Literal["x", "y"]) -> None:
    """Set a logarithmic axis with plain numbers, also between powers of ten if there are few of these."""
    axes.set(**{f"{which}scale": "log"})
    axis = getattr(axes, f"{which}axis")
    low, high = sorted(axis.get_view_interval())
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if 0 < high < 200 * low else (1,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def legend(axes: Axes) -> None:
    """Draw a legend below the axes; lines differ in their marks and dashes as well as in colour."""
    named, _ = axes.get_legend_handles_labels()
    if named:
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=min(3, len(named)), frameon=False, fontsize=9)


def by_step(values: Sequence[float | None], results: Results) -> str:
    """Describe a curve in words: its first, trained and last step."""
    steps, trained = results["steps"], min(results["trained_steps"], results["steps"])
    return ", ".join(f"{share(values[m - 1])} at step {m}" for m in sorted({1, trained, steps}))


PANEL = (4.6, 3.2)  # inches: its text stays readable on a screen of 390 px
STYLE: dict[Any, Any] = {
    "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": INK, "xtick.color": INK, "ytick.color": INK,
    "axes.spines.top": False, "axes.spines.right": False, "text.parse_math": False, "axes.titlesize": 10.5,
    "axes.grid": True, "grid.color": LINE, "grid.linewidth": 0.6, "font.size": 10, "lines.markersize": 3.5,
    "lines.linewidth": 1.4, "axes.axisbelow": True,
}  # fmt: skip


@dataclass(frozen=True)
class Chart:
    """One pair of axes."""

    title: str
    alt_text: str  # alternative text: its values in a sentence
    draw: Callable[[Axes], None]
    size: tuple[float, float] = PANEL


def save_png(charts: Sequence[Chart], path: Path) -> None:
    """Save charts on white, two in a row."""
    across = min(2, len(charts))
    down = -(-len(charts) // across)
    width, height = charts[0].size[0], max(chart.size[1] for chart in charts)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width * across, height * down), dpi=150, layout="constrained")
        for place, chart in enumerate(charts, start=1):
            axes = figure.add_subplot(down, across, place)
            chart.draw(axes)
            axes.set_title(chart.title)
        figure.savefig(path, facecolor="white")


def svg(chart: Chart) -> str:
    """Return the chart as an SVG file, the same bytes each time."""
    with matplotlib.rc_context(STYLE | {"svg.fonttype": "none", "svg.hashsalt": chart.title}):
        figure = Figure(figsize=chart.size, layout="constrained")
        chart.draw(figure.subplots())
        out = StringIO()
        figure.savefig(out, format="svg", facecolor="white", metadata={"Date": None, "Creator": None})
    return out.getvalue()
