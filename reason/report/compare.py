"""A comparison of several evaluations: their figures, and what differs between the runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
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
from reason.report.measures import EXACT, MEASURES, shared_measures
from reason.report.page import comparison_page
from reason.report.section import Results, Table, at_trained, interval, number, share

FACTS = (  # facts of an evaluation, in addition to the settings of its run
    "preset", "checkpoint_step", "parameters", "weights", "precision", "device", "dataset", "split", "puzzles", "steps",
)  # fmt: skip
Settings = Mapping[str, Sequence[Any]]  # {"section.key": the value in each run}


def letter(index: int) -> str:
    """Return the label of a run in tables and charts: A, B, …, Z, AA, AB, …"""
    return (letter(index // 26 - 1) if index >= 26 else "") + chr(ord("A") + index % 26)


def tables(evaluations: Sequence[Results], settings: Settings) -> list[Table]:
    """Return a table of every measure of `MEASURES` that all have, else of exact accuracy, and the differences."""
    measured = [figures(evaluations, key) for key in shared_measures(evaluations)]
    found = *(measured or [figures(evaluations, "exact_by_step")]), differences(evaluations, settings)
    return [table for table in found if table.rows]


def figures(evaluations: Sequence[Results], key: str) -> Table:
    """Return a row of a measure for every evaluation; with more columns for exact accuracy."""
    name, form = MEASURES.get(key, EXACT)
    columns = ["", "run", "at step 1", "at the trained step", "at the last step"]
    columns += ["95 % interval, trained step", "rules hold, last step"] if key not in MEASURES else []
    rows = []
    for index, results in enumerate(evaluations):
        trained, values = at_trained(results, key), results[key]
        row = [letter(index), results["run"], *(number(each, form) for each in (values[0], trained, values[-1]))]
        row[3:5] = f"{row[3]} ({min(results['trained_steps'], results['steps'])})", f"{row[4]} ({results['steps']})"
        if key not in MEASURES:
            valid = results.get("valid_by_step")
            row += [interval(trained or 0.0, results["puzzles"]), share(valid[-1] if valid else None)]
        rows.append(row)
    return Table(name, columns, rows, left=(0, 1))


def differences(evaluations: Sequence[Results], settings: Settings) -> Table:
    """Return a row for everything that differs between runs: facts of the evaluations, then settings of the runs."""
    facts = {key: [results.get(key, ...) for results in evaluations] for key in FACTS}
    values = {**facts, **settings, **facts}  # first the facts, each also in place of a setting "auto"
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
    changed = sorted(where for where, hashes in digests.items() if len(hashes) > 1)
    return notes + [f"the {where} held other puzzles at one evaluation than at another" for where in changed]


def charts(evaluations: Sequence[Results]) -> list[Chart]:
    """Return the charts of exact accuracy and error by step, with a line and its interval for every run."""
    most = max(evaluations, key=lambda results: results["steps"])

    def curves(axes: Axes, key: str, errors: bool = False) -> None:
        for index, results in enumerate(evaluations):
            if key in MEASURES:
                plot_band(axes, results[key], results[key], results[key], letter(index), index)
            else:
                plot = plot_error if errors else plot_exact
                plot(axes, results[key], results["puzzles"], letter(index), index)
        if errors:
            errors_axis(axes)
        elif key in MEASURES:
            log_axis(axes, "y")
            axes.set_ylabel(MEASURES[key].name)
        else:
            shares_axis(axes, "exact")
        steps_axis(axes, most)
        legend(axes)

    rows = tables(evaluations, {})[0].rows
    alt_text = "; ".join(f"{row[0]}, {row[1]}: {row[3]} at the trained step, {row[4]} at the last" for row in rows)
    size = (PANEL[0], PANEL[1] + 0.06 * len(evaluations))  # inches: one label per run
    if shared := shared_measures(evaluations):
        return [Chart(MEASURES[key].name, alt_text, partial(curves, key=key), size) for key in shared]
    exact = partial(curves, key="exact_by_step")
    titles = {"exact: whole puzzles right": exact, "error, 1 − exact": partial(exact, errors=True)}
    return [Chart(title, alt_text, draw, size) for title, draw in titles.items()]


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
