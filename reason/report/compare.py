"""A comparison of several evaluations: their figures, and what differs between the runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from reason.errors import printable
from reason.report.chart import (
    PANEL,
    Chart,
    errors_axis,
    legend,
    log_axis,
    plot_band,
    plot_error,
    plot_exact,
    save_png,
    shares_axis,
    steps_axis,
)
from reason.report.measures import MEASURES, shared_measures
from reason.report.page import comparison_page
from reason.report.section import Results, Table, at_trained, interval, share

COLUMNS = ("", "run", "exact at step 1", "at the trained step", "95 % interval", "at the last step", "rules hold")
FACTS = (  # facts of an evaluation, in addition to the settings of its run
    "preset", "checkpoint_step", "parameters", "weights", "precision", "device", "dataset", "split", "puzzles", "steps",
)  # fmt: skip
Settings = Mapping[str, Sequence[Any]]  # {"section.key": the value in each run}


def letter(index: int) -> str:
    """Return the label of a run in tables and charts: A, B, …, Z, AA, AB, …"""
    return (letter(index // 26 - 1) if index >= 26 else "") + chr(ord("A") + index % 26)


def figures(evaluations: Sequence[Results]) -> Table:
    """Return a row for every evaluation."""
    rows = []
    for index, results in enumerate(evaluations):
        trained, exact = min(results["trained_steps"], results["steps"]), results["exact_by_step"]
        rows.append(
            [
                letter(index),
                results["run"],
                share(exact[0]),
                f"{share(exact[trained - 1])} ({trained})",
                interval(exact[trained - 1], results["puzzles"]),
                f"{share(exact[-1])} ({results['steps']})",
                share(results["valid_by_step"][-1] if results.get("valid_by_step") else None),
            ]
        )
    return Table("exact accuracy", COLUMNS, rows, left=(0, 1))


def tables(evaluations: Sequence[Results], settings: Settings) -> list[Table]:
    """Return the figures of every evaluation, with the shared measures of `MEASURES`, and the differences."""
    by_measure = []
    for key in shared_measures(evaluations):
        name, form = MEASURES[key]
        rows = []
        for index, results in enumerate(evaluations):
            values = results[key][0], at_trained(results, key), results[key][-1]
            rows.append([letter(index), results["run"], *(format(value, form) for value in values)])
        columns = ("", "run", "at step 1", "at the trained step", "at the last step")
        by_measure.append(Table(name, columns, rows, left=(0, 1)))
    by_measure = by_measure or [figures(evaluations)]
    return [table for table in (*by_measure, differences(evaluations, settings)) if table.rows]


def differences(evaluations: Sequence[Results], settings: Settings) -> Table:
    """Return a row for everything that differs between runs: facts of the evaluations, then settings of the runs."""
    facts = {key: [results.get(key, ...) for results in evaluations] for key in FACTS}
    values = facts | {
        key: by_run for key, by_run in settings.items() if key not in facts
    }  # a fact replaces the setting "auto"
    unlike = {key: by_run for key, by_run in values.items() if any(value != by_run[0] for value in by_run)}
    rows = [[printable(key), _by_value(by_run)] for key, by_run in unlike.items()]
    return Table("what differs", ("setting", "in runs"), rows, left=(0, 1))


def _by_value(values: Sequence[Any]) -> str:
    """Return the runs that have each value, 'A C: silu; B: tanh'; long ones on separate lines."""
    runs: dict[str, list[str]] = {}
    for index, value in enumerate(values):
        runs.setdefault(_text(value), []).append(letter(index))
    groups = [f"{' '.join(letters)}: {text}" for text, letters in runs.items()]
    return ("; " if sum(map(len, groups)) < 50 else "\n").join(groups)


def _text(value: Any) -> str:
    if value is ...:
        return "–"
    if value is None or isinstance(value, bool):
        return {None: "none", True: "true", False: "false"}[value]
    return f"{value:,}" if isinstance(value, int) else printable(value) if isinstance(value, str) else json.dumps(value)


def alike(evaluations: Sequence[Results]) -> str:
    """Return the common facts of all evaluations: '2 runs: split test, puzzles 1,000, checkpoint_step 800'."""
    keys = ("dataset", "split", "puzzles", "checkpoint_step", "parameters", "precision")
    facts = [f"{key} {_text(evaluations[0][key])}" for key in keys if len({r.get(key) for r in evaluations}) == 1]
    return f"{len(evaluations)} runs: {', '.join(facts)}"


def notes_on(evaluations: Sequence[Results]) -> list[str]:
    """Return warnings about an unfair comparison."""
    notes = []
    fix = "no fair comparison: evaluate.py RUN data=DIR name=NAME for each on one set, then compare --name NAME"
    for key, what in (("dataset", "sets"), ("split", "splits"), ("puzzles", "numbers of puzzles")):
        seen = sorted({str(results[key]) for results in evaluations})
        if len(seen) > 1:
            notes.append(f"different {what}: {', '.join(seen)}; {fix}")
    digests: dict[str, set[str]] = {}
    for results in evaluations:
        if results.get("fingerprint"):
            digests.setdefault(f"{results['split']} split of {results['dataset']}", set()).add(results["fingerprint"])
    changed = sorted(where for where, found in digests.items() if len(found) > 1)
    return notes + [f"the {where} held other puzzles at one evaluation than at another" for where in changed]


def charts(evaluations: Sequence[Results]) -> list[Chart]:
    """Return the charts of exact accuracy and error by step, with a line and its interval for every run."""
    most = max(evaluations, key=lambda results: results["steps"])

    def curves(axes: Axes, plot: Callable[..., None] = plot_exact) -> None:
        for index, results in enumerate(evaluations):
            plot(axes, results["exact_by_step"], results["puzzles"], letter(index), index)
        if plot is plot_error:
            errors_axis(axes)
        else:
            shares_axis(axes, "exact")
        steps_axis(axes, most)
        legend(axes)

    def draw_measure(axes: Axes, key: str) -> None:
        for index, results in enumerate(evaluations):
            plot_band(axes, results[key], results[key], results[key], letter(index), index)
        log_axis(axes, "y")
        axes.set_ylabel(MEASURES[key].name)
        steps_axis(axes, most)
        legend(axes)

    first = tables(evaluations, {})[0]
    trained, last = first.columns.index("at the trained step"), first.columns.index("at the last step")
    alt_text = "; ".join(f"{r[0]}, {r[1]}: {r[trained]} at the trained step, {r[last]} at the last" for r in first.rows)
    size = (PANEL[0], PANEL[1] + 0.06 * len(evaluations))  # inches: one label per run
    errors = partial(curves, plot=plot_error)
    if shared := shared_measures(evaluations):
        return [Chart(MEASURES[key].name, alt_text, partial(draw_measure, key=key), size) for key in shared]
    exact = Chart("exact: whole puzzles right", alt_text, curves, size)
    return [exact, Chart("error, 1 − exact", alt_text, errors, size)]


def write_comparison(folder: Path, evaluations: Sequence[Results], settings: Settings) -> None:
    """Write comparison.json, .png and .html to `folder`; `settings` are those in which the runs differ."""
    unlike = {key: [None if value is ... else value for value in values] for key, values in settings.items()}
    content = {"evaluations": list(evaluations), "differences": unlike}
    (folder / "comparison.json").write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    plots = charts(evaluations)
    save_png(plots, folder / "comparison.png")
    shown = tables(evaluations, settings)
    page = comparison_page(alike(evaluations), shown, plots, notes_on(evaluations))
    (folder / "comparison.html").write_text(page, encoding="utf-8")
