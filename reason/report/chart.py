"""Charts: their axes, lines, intervals and labels; as an SVG of the page, or beside each other in a PNG."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from io import StringIO
from pathlib import Path
from typing import Any, Literal

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator, PercentFormatter

from reason.report.palette import GREY, INK, LINE, in_css, styled
from reason.report.section import Results, share, wilson_interval

LABEL = 9.5  # points
POWERS = [2**k for k in range(17)]


def numbers(values: Sequence[float | None]) -> np.ndarray:
    """An array with nan where results have null."""
    return np.array([np.nan if value is None else value for value in values], float)


def steps_axis(axes: Axes, results: Results) -> None:
    """Whole supervision steps, the trained ones dotted."""
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.set_xlabel("supervision steps")
    if results["trained_steps"] <= results["steps"]:
        axes.axvline(results["trained_steps"], color=GREY, ls=":", lw=1.2, zorder=1)


def curves_by_step(axes: Axes, label: str, results: Results) -> None:
    """Shares against supervision steps, each line labelled at its end."""
    shares_axis(axes, label)
    steps_axis(axes, results)
    label_ends(axes)


def doubling_axis(axes: Axes, largest: float, label: str) -> None:
    """A logarithmic axis with ticks at 1, 2, 4, 8, …."""
    axes.set_xscale("log")
    axes.set_xticks([t for t in POWERS if t <= largest])
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel(label)


def shares_axis(axes: Axes, label: str, whole: bool = True) -> None:
    """Shares as per cent, all of [0, 1] or what is there."""
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=None))
    axes.set_ylabel(label)
    if whole:
        axes.set_ylim(-0.02, 1.02)


def plot_exact(axes: Axes, exact: Sequence[float], puzzles: int, label: str, index: int = 0) -> None:
    """Exact accuracy by step with its Wilson interval."""
    steps, style = np.arange(1, len(exact) + 1), styled(index)
    low, high = np.transpose([wilson_interval(value, puzzles) for value in exact])
    axes.plot(steps, exact, label=label, markevery=max(1, len(exact) // 16), **style)
    axes.fill_between(steps, low, high, color=style["color"], alpha=0.15, lw=0)


def plot_error(axes: Axes, exact: Sequence[float], puzzles: int, label: str, index: int = 0) -> None:
    """1 − exact by step with its Wilson interval, for a logarithmic axis; no error at all as an open mark below 1/n."""
    steps, style = np.arange(1, len(exact) + 1), styled(index)
    error, least = 1 - np.array(exact), 0.5 / puzzles
    low, high = np.transpose([wilson_interval(value, puzzles) for value in exact])
    none = error < least
    shown = np.where(none, least, error)
    axes.plot(steps, shown, label=label, markevery=max(1, len(exact) // 16), **style)
    axes.plot(steps[none], shown[none], "o", mfc="none", color=style["color"], ms=5)
    axes.fill_between(steps, np.maximum(1 - high, least), 1 - low, color=style["color"], alpha=0.15, lw=0)


def errors_axis(axes: Axes, puzzles: int) -> None:
    """A logarithmic axis of shares, down to half a puzzle at most."""
    lowest = axes.dataLim.y0
    axes.set(yscale="log", ylim=(max(0.4 / puzzles, 0.7 * lowest), 1.15), ylabel="error, 1 − exact")
    _numbered(axes.yaxis, lambda value: f"{100 * value:g}%")


def log_axis(axes: Axes, which: Literal["x", "y"]) -> None:
    """A logarithmic axis with plain numbers, also between powers of ten where there are few of these."""
    axes.set(**{f"{which}scale": "log"})
    _numbered(getattr(axes, f"{which}axis"), lambda value: f"{value:g}")


def _numbered(axis: Axis, text: Callable[[float], str]) -> None:
    low, high = sorted(axis.get_view_interval())
    few = low > 0 and high / low < 200
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if few else (1,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: text(value)))
    axis.set_minor_formatter(NullFormatter())


def errorbars(axes: Axes, x: Sequence[float], shares: Sequence[float], puzzles: int, **style: Any) -> None:
    """Points with their Wilson intervals."""
    values = np.array(shares)
    low, high = np.transpose([wilson_interval(value, puzzles) for value in shares])
    bars = np.maximum([values - low, high - values], 0)
    axes.errorbar(x, values, yerr=bars, elinewidth=0.9, capsize=2, **style)


def spread(wanted: Sequence[float], gap: float) -> np.ndarray:
    """Places in the order of those wanted, at least `gap` apart, within [0, 1] as long as they fit."""
    order = np.argsort(wanted, kind="stable")
    placed = np.clip(np.array(wanted, float)[order], 0, 1)
    for i in range(1, len(placed)):
        placed[i] = max(placed[i], placed[i - 1] + gap)
    if len(placed) and placed[-1] > 1:
        placed[-1] = 1
        for i in range(len(placed) - 2, -1, -1):
            placed[i] = min(placed[i], placed[i + 1] - gap)
    found = np.empty_like(placed)
    found[order] = placed
    return found


def label_ends(axes: Axes) -> None:
    """The labels of lines, each beside its line's last point, in its colour, and moved apart where they would meet."""
    ends = []
    for line in axes.get_lines():
        x, y = (np.asarray(values, float) for values in line.get_data())
        seen = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
        if len(seen) and not str(line.get_label()).startswith("_"):
            ends.append((str(line.get_label()), str(line.get_color()), (x[seen[-1]], y[seen[-1]])))
    if not ends:
        return
    axes.get_ylim()  # scales the axes, which waits for a reader
    to_axes = axes.transScale + axes.transLimits
    heights = [float(to_axes.transform(point)[1]) for _, _, point in ends]
    figure = axes.get_figure(root=True)
    assert figure is not None
    spec = axes.get_subplotspec()
    rows = 1 if spec is None else spec.get_gridspec().nrows
    gap = 1.2 * LABEL / (72 * figure.get_figheight() / rows * 0.75)  # axes take three quarters of the height
    for (label, colour, point), place in zip(ends, spread(heights, gap), strict=True):
        axes.annotate(
            label, point, (1.04, place), textcoords="axes fraction", color=colour, fontsize=LABEL, va="center",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": colour, "lw": 0.6, "alpha": 0.7, "shrinkA": 1, "shrinkB": 3},
        )  # fmt: skip


def shortened(label: str, most: int = 20) -> str:
    """A label that leaves the lines their width."""
    return label if len(label) <= most else f"{label[: most - 1]}…"


def by_step(values: Sequence[float | None], results: Results) -> str:
    """A curve in words: its first, trained and last step."""
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
    says: str  # its values in a sentence, for a reader who does not see it
    draw: Callable[[Axes], None]
    size: tuple[float, float] = PANEL

    @property
    def small(self) -> bool:
        """Does it belong into a row of many?"""
        return self.size[0] < PANEL[0] / 1.5


def save_png(charts: Sequence[Chart], path: Path) -> None:
    """Charts beside each other on white: two in a row, four of small ones."""
    across = min(4 if charts[0].small else 2, len(charts))
    down = -(-len(charts) // across)
    width, height = charts[0].size[0], max(chart.size[1] for chart in charts)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width * across, height * down), dpi=150, layout="constrained")
        for place, chart in enumerate(charts, start=1):
            axes = figure.add_subplot(down, across, place)
            chart.draw(axes)
            axes.set_title(chart.title, fontsize=8 if chart.small else None)
        figure.savefig(path, facecolor="white")


def svg(chart: Chart, name: str) -> str:
    """The chart as an <svg> that says what it shows; `name` makes its ids differ from those of others on the page."""
    with matplotlib.rc_context(STYLE | {"svg.fonttype": "none", "svg.hashsalt": name}):
        figure = Figure(figsize=chart.size, layout="constrained")
        chart.draw(figure.subplots())
        out = StringIO()
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.S)
    text = re.sub(r' xmlns(:xlink)?="[^"]*"', "", text).replace("xlink:href", "href")
    text = re.sub(r"font: ([\d.]+)px[^;\"]*", r"font-size: \1px", text)
    used = set(re.findall(r"(?:href=\"#|url\(#)([^\")]+)", text))
    text = re.sub(r' id="([^"]*)"', lambda found: found[0] if found[1] in used else "", text)
    head, rest = text.split(">", 1)
    head = re.sub(r' (width|height|version)="[^"]*"', "", head)
    return in_css(f'{head} role="img" aria-label="{escape(f"{chart.title}: {chart.says}")}">{rest}')
