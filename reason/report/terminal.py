"""Results in the terminal."""

from __future__ import annotations

from textwrap import fill
from typing import Literal

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as View
from rich.text import Text

from reason.report.section import Results, Table, wilson_interval
from reason.report.sections import sections_of


def headline(results: Results) -> str:
    """'exact 94.2 % [92.6, 95.5] of 1000 puzzles at step 8 (trained), …' in one line."""
    exact, trained = results["exact_by_step"], min(results["trained_steps"], results["steps"])
    low, high = wilson_interval(exact[trained - 1], results["puzzles"])
    unscored = results.get("unscored")
    return (
        f"exact {exact[trained - 1]:.1%} (95 % interval {low:.1%} to {high:.1%}) at step {trained}, {exact[0]:.1%} at "
        f"step 1, {exact[-1]:.1%} at step {results['steps']}; {results['puzzles']} puzzles ({results['split']})"
        + (f", {unscored} without a scored cell left out" if unscored else "")
        + (f"; computed in {results['precision']}" if "precision" in results else "")
    )


def print_results(results: Results, console: Console) -> None:
    """The tables of every section that there are numbers for."""
    for section in sections_of(results):
        for table in section.tables(results):
            console.print(view(table))


def view(table: Table) -> View:
    """The rows that a table shows, as narrow as its cells: headers break between their words, words where they must."""
    shown = View(title=Text(table.title), title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for index, column in enumerate(table.columns):
        width = max(len(text) for text in ("-", *(row[index] for row in table.shown), *column.split()))
        words = index in table.left
        side: Literal["left", "right"] = "left" if words else "right"
        shown.add_column(Text(fill(column, width)), justify=side, no_wrap=not words, overflow="fold")
    for row in table.shown:
        shown.add_row(*map(Text, row))
    return shown
