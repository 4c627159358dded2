"""Line plots of docs/results.md as SVG: no background, in colours for light and for dark pages.

An SVG in an <img> follows `prefers-color-scheme`, so that one file serves both.
"""

from __future__ import annotations

import math
from html import escape
from itertools import pairwise

from reason.report.palette import DARK, LIGHT

WIDTH, HEIGHT = 720, 340
LEFT, RIGHT, TOP, BOTTOM = 62, 190, 16, 48
TICKS = 5  # intervals of the vertical axis
LABEL = 17  # pixels between the labels of two lines
Points = list[tuple[float, float]]


def line_plot(x_label: str, y_label: str, lines: dict[str, Points], alt_text: str, floor: float = 0) -> str:
    """Shares in %, from `floor` on, over steps on a doubling axis; every line is labelled at its end."""
    steps = sorted({x for points in lines.values() for x, _ in points})
    low, high = math.log2(steps[0]), math.log2(steps[-1])
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM

    def across(x: float) -> float:
        return LEFT + (right - LEFT) * (math.log2(x) - low) / (high - low)

    def down(y: float) -> float:
        return bottom - (bottom - TOP) * (y - floor) / (100 - floor)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"',
        f' role="img" aria-label="{escape(alt_text)}">',
        f"<style>{style(len(lines))}</style>",
    ]
    for number in range(TICKS + 1):
        tick = floor + (100 - floor) * number / TICKS
        parts.append(f'<path class="grid" d="M{LEFT} {down(tick):.1f}H{right}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{down(tick) + 4.5:.1f}" text-anchor="end">{tick:g} %</text>')
    for step in steps:
        parts.append(f'<path class="grid" d="M{across(step):.1f} {TOP}V{bottom}"/>')
        parts.append(f'<text x="{across(step):.1f}" y="{bottom + 20}" text-anchor="middle">{step:g}</text>')
    middle = (TOP + bottom) / 2
    parts.append(f'<text x="{(LEFT + right) / 2}" y="{HEIGHT - 8}" text-anchor="middle">{escape(x_label)}</text>')
    parts.append(f'<text transform="translate(14 {middle}) rotate(-90)" text-anchor="middle">{escape(y_label)}</text>')
    heights = apart([down(points[-1][1]) for points in lines.values()])
    for number, ((label, points), height) in enumerate(zip(lines.items(), heights, strict=True), start=1):
        path = "L".join(f"{across(x):.1f} {down(y):.1f}" for x, y in points)
        parts.append(f'<path class="line c{number}" d="M{path}"/>')
        parts += [f'<circle class="c{number}" cx="{across(x):.1f}" cy="{down(y):.1f}" r="3"/>' for x, y in points]
        start = f"{across(points[-1][0]) + 5:.1f} {down(points[-1][1]):.1f}"
        parts.append(f'<path class="lead c{number}" d="M{start}L{right + 12} {height:.1f}"/>')
        parts.append(f'<text class="c{number}" x="{right + 16}" y="{height + 4.5:.1f}">{escape(label)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def apart(wanted: list[float]) -> list[float]:
    """Heights of the labels: near the wanted ones, no two closer than LABEL, none below the plot."""
    order = sorted(range(len(wanted)), key=wanted.__getitem__)
    placed = list(wanted)
    for above, index in pairwise(order):
        placed[index] = max(placed[index], placed[above] + LABEL)
    lowest = float(HEIGHT - BOTTOM)
    for index in reversed(order):
        lowest = placed[index] = min(placed[index], lowest)
        lowest -= LABEL
    return placed


def style(lines: int) -> str:
    """The colours of the report, light and dark."""

    def colours(of: dict[str, str]) -> str:
        series = "".join(
            f".c{number}{{stroke:{of[f'--series-{number}']}}}text.c{number},circle.c{number}{{fill:{of[f'--series-{number}']}}}"
            for number in range(1, lines + 1)
        )
        return f"text{{fill:{of['--ink']}}}.grid{{stroke:{of['--line']}}}{series}"

    return (
        "text{font:14px Helvetica,Arial,sans-serif;stroke:none!important}.grid{stroke-width:1}"
        ".line{fill:none;stroke-width:2.2}.lead{fill:none;stroke-width:.8;opacity:.6}"
        f"{colours(LIGHT)}@media(prefers-color-scheme:dark){{{colours(DARK)}}}"
    )
