"""A Section of the report: one part of results.json as tables, figures and CSV, for the terminal and the page alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import matplotlib

matplotlib.use("agg")
from matplotlib.figure import Figure
from scipy.stats import binomtest

Results = Mapping[str, Any]
Plot = Callable[[Figure, Results], None]
Records = Callable[[Results], Sequence[Mapping[str, Any]]]  # lines of a CSV: shares in [0, 1], None where there is none


@dataclass(frozen=True)
class Table:
    """Rows of text."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: tuple[int, ...] = (0,)  # columns that are words


@dataclass(frozen=True)
class Section:
    """What is shown where results.json has `key`."""

    key: str
    title: str  # on the page
    tables: Callable[[Results], list[Table]] = lambda _: []
    plots: Mapping[str, Plot] = field(default_factory=dict)  # by file name
    records: Mapping[str, Records] = field(default_factory=dict)  # by file name
    note: Callable[[Results], str] = lambda _: ""


def wilson_interval(share: float, count: int) -> tuple[float, float]:
    """The 95 % Wilson interval of a share seen among `count` puzzles."""
    interval = binomtest(round(share * count), count).proportion_ci(0.95, method="wilson")
    return float(interval.low), float(interval.high)


def shown_steps(steps: int, trained: int, at_most: int = 20) -> list[int]:
    """Steps worth a table row: all of them when few, else 1, powers of two, the trained and the last one."""
    if steps <= at_most:
        return list(range(1, steps + 1))
    return sorted({1, *(2**k for k in range(1, 20) if 2**k < steps), min(trained, steps), steps})


def share(value: float | None) -> str:
    """A share as per cent; '–' for none."""
    return number(value, ".1%")


def number(value: float | None, form: str = ".3g") -> str:
    """A number in a format; '–' for none, as where a state has diverged."""
    return "–" if value is None else format(value, form)


def interval(value: float, count: int) -> str:
    """The Wilson interval of a share in words."""
    low, high = wilson_interval(value, count)
    return f"{100 * low:.1f}–{high:.1%}"
