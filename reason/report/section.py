"""Sections of the report: parts of results.json as tables and charts, for the terminal and the page alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import fill
from typing import TYPE_CHECKING, Any, Literal

from rich.box import SIMPLE_HEAD
from rich.table import Table as View
from rich.text import Text
from scipy.stats import binomtest

from reason.report.measures import MEASURES

if TYPE_CHECKING:
    from reason.report.chart import Chart


Results = Mapping[str, Any]
Charts = Callable[[Results], "Sequence[Chart]"]


@dataclass(frozen=True)
class Table:
    """A table of texts."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: tuple[int, ...] = (0,)  # columns that are words
    first: Sequence[int] | None = None  # rows shown by default, the others are collapsed; None: all

    @property
    def shown(self) -> list[Sequence[str]]:
        """Return the rows shown by default."""
        return list(self.rows) if self.first is None else [self.rows[index] for index in self.first]


@dataclass(frozen=True)
class Section:
    """A part of the report, shown if results.json contains `key`."""

    key: str
    title: str  # on the page
    tables: Callable[[Results], list[Table]] = lambda _: []
    charts: Mapping[str, Charts] = field(default_factory=dict)  # by file name of the PNG that holds them all
    note: Callable[[Results], str] = lambda _: ""
    precision: str | None = None  # precision of its numbers; None: the precision of the pass
    order: int = 100  # on the page, 0 first and 100 last; sections of one number keep the order of addition


def at_trained(results: Results, key: str = "exact_by_step") -> float | None:
    """Return a value at the last trained step; None if it was not finite."""
    value: float | None = results[key][min(results["trained_steps"], results["steps"]) - 1]
    return value


def wilson_interval(share: float, count: int) -> tuple[float, float]:
    """Return the 95 % Wilson interval of a share seen among `count` puzzles."""
    interval = binomtest(round(share * count), count).proportion_ci(0.95, method="wilson")
    return float(interval.low), float(interval.high)


def shown_steps(steps: int, trained: int) -> list[int]:
    """Return the steps with a table row: 1, 2, 4, 8, 16, …, the trained and the last one."""
    return sorted({*(2**k for k in range(steps.bit_length())), min(trained, steps), steps})


def rows_shown(steps: int, trained: int) -> list[int]:
    """Return the rows of those steps in a table of all of them."""
    return [step - 1 for step in shown_steps(steps, trained)]


def share(value: float | None) -> str:
    """Return a share as per cent; '–' for none."""
    return number(value, ".1%")


def number(value: float | None, form: str = ".3g") -> str:
    """Return a number in a format; '–' for none, for example if a state has diverged."""
    return "–" if value is None else format(value, form)


def cells(row: Mapping[str, Any], **forms: str) -> list[str]:
    """Return some numbers of a record, each in its format."""
    return [number(row[key], form) for key, form in forms.items()]


def interval(value: float, count: int) -> str:
    """Return the Wilson interval of a share in words."""
    low, high = wilson_interval(value, count)
    return f"{100 * low:.1f}–{high:.1%}"


def headline(results: Results) -> str:
    """Return the main result in one line: 'exact 94.2% (95 % interval 92.6% to 95.5%) at step 8, …; 1000 puzzles'."""
    exact, trained = results["exact_by_step"], min(results["trained_steps"], results["steps"])
    low, high = wilson_interval(exact[trained - 1], results["puzzles"])
    unscored = results.get("unscored")
    measured = (
        f"{measure.name} {number(at_trained(results, key), measure.form)} at step {trained}, "
        for key, measure in MEASURES.items()
        if key in results
    )
    others = (f", {exact[m - 1]:.1%} at step {m}" for m in sorted({1, results["steps"]} - {trained}))
    return "".join(measured) + (
        f"exact {exact[trained - 1]:.1%} (95 % interval {low:.1%} to {high:.1%}) at step {trained}{''.join(others)}"
        f"; {results['puzzles']} puzzles ({results['split']})"
        + (f", {unscored} without a scored cell left out" if unscored else "")
        + (f"; computed in {results['precision']}" if "precision" in results else "")
    )


def view(table: Table) -> View:
    """Return the shown rows as a table, as narrow as its cells: headers break between words, and words if needed."""
    shown = View(title=Text(table.title), title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for index, column in enumerate(table.columns):
        width = max(len(text) for text in ("-", *(row[index] for row in table.shown), *str(column).split()))
        words = index in table.left
        side: Literal["left", "right"] = "left" if words else "right"
        shown.add_column(Text(fill(str(column), width)), justify=side, no_wrap=not words, overflow="fold")
    for row in table.shown:
        shown.add_row(*map(Text, row))
    return shown
