"""A plot as PNG, and as SVG in the ink of the page that holds it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reason.report.section import Plot, Results

INK = "#12345a"  # stands for the page's own text colour in an SVG
BLUE, ORANGE, GREEN, RED = "#3b82c4", "#e07b39", "#3a9d6a", "#d1495b"
COLOURS = (BLUE, ORANGE, GREEN, RED, "#8e6bbf", "#b8860b", "#4fb3bf", "#c2649a")


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


def steps_axis(axes: Axes, results: Results) -> None:
    """Whole supervision steps, the trained ones dotted."""
    axes.xaxis.set_major_locator(matplotlib.ticker.MaxNLocator(integer=True, min_n_ticks=1))
    axes.set_xlabel("supervision steps")
    if results["trained_steps"] <= results["steps"]:
        axes.axvline(results["trained_steps"], color="grey", ls=":", lw=1)
    axes.grid(alpha=0.25)


def numbers(values: Sequence[float | None]) -> np.ndarray:
    """An array with nan where results have null."""
    return np.array([np.nan if value is None else value for value in values], float)
