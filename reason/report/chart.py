"""A chart: on the page an SVG by itself, in the page's colours and font; in a PNG beside the others of its plot."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from io import StringIO
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from reason.report.palette import INK, LINE, in_css

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
        figure = plt.figure(figsize=(width * across, height * down), dpi=150, layout="constrained")
        for place, chart in enumerate(charts, start=1):
            axes = figure.add_subplot(down, across, place)
            chart.draw(axes)
            axes.set_title(chart.title, fontsize=8 if chart.small else None)
        figure.savefig(path, facecolor="white")
    plt.close(figure)


def svg(chart: Chart, name: str) -> str:
    """The chart as an <svg> that says what it shows; `name` makes its ids differ from those of others on the page."""
    with matplotlib.rc_context(STYLE | {"svg.fonttype": "none", "svg.hashsalt": name}):
        figure = plt.figure(figsize=chart.size, layout="constrained")
        chart.draw(figure.subplots())
        out = StringIO()
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    plt.close(figure)
    text = out.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.S)
    text = re.sub(r' xmlns(:xlink)?="[^"]*"', "", text).replace("xlink:href", "href")
    text = re.sub(r"font: ([\d.]+)px[^;\"]*", r"font-size: \1px", text)
    used = set(re.findall(r"(?:href=\"#|url\(#)([^\")]+)", text))
    text = re.sub(r' id="([^"]*)"', lambda found: found[0] if found[1] in used else "", text)
    head, rest = text.split(">", 1)
    head = re.sub(r' (width|height|version)="[^"]*"', "", head)
    return in_css(f'{head} role="img" aria-label="{escape(f"{chart.title}: {chart.says}")}">{rest}')
