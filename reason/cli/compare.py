"""reason compare: several runs in one table and one plot."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from reason.errors import ConfigError, printable
from reason.files import read_json
from reason.report.compare import COLUMNS, comparison_rows, notes_on, write_comparison
from reason.runs.folders import replaced_folder
from reason.runs.results import compared

DESCRIPTION = """Compare the evaluations of several runs in one table and one plot.

  reason compare runs/first runs/second                       the newest evaluation of each
  reason compare runs/*                                       all of them
  reason compare --name sudoku-6x6-test-T64 runs/*            the evaluation of that name
  reason compare runs/first/evaluation/A runs/first/evaluation/B     two evaluations of one run

Prints a table and writes comparison.html, .png, .csv and .json to OUT (default runs/comparison)."""

SHOWN = (0, 2, 4, 5, 6, 7, 10)  # columns that fit a terminal


def main(argv: list[str]) -> int:
    """Read, print, write; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="reason compare", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", metavar="RUN", help="a run, or one of its evaluation folders")
    parser.add_argument("--name", help="which evaluation of every run (default: the newest)")
    parser.add_argument("--out", type=Path, default=Path("runs/comparison"), help="folder (default runs/comparison)")
    arguments = parser.parse_args(argv)
    evaluations = [read_evaluation(Path(run), arguments.name) for run in arguments.runs]
    names = [results["run"] for results in evaluations]
    evaluations = [
        results | {"run": f"{results['run']}/{results['evaluation']}"} if names.count(results["run"]) > 1 else results
        for results in evaluations
    ]
    with replaced_folder(arguments.out, "a comparison") as folder:
        write_comparison(folder, evaluations)
    rows = comparison_rows(evaluations)
    view = Table(title=f"{len(rows)} runs", title_justify="left")
    for index in SHOWN:
        view.add_column(COLUMNS[index], justify="left" if index in (0, 10) else "right")
    for row in rows:
        view.add_row(*(escape(row[index]) for index in SHOWN))
    Console().print(view)
    for note in notes_on(evaluations):
        print(f"warning: {note}", file=sys.stderr)
    print(f"page {arguments.out / 'comparison.html'}\npicture {arguments.out / 'comparison.png'}")
    return 0


def read_evaluation(path: Path, name: str | None = None) -> dict[str, Any]:
    """The results of an evaluation folder, or of a run's newest (or named) evaluation, with the folder's name.

    Raises:
        ConfigError: there are none, or the file is not one of results.
    """
    if (path / "results.json").exists():
        folder = path
    else:
        found = sorted((path / "evaluation").glob("*/results.json"), key=lambda file: file.stat().st_mtime)
        if name is not None:
            found = [file for file in found if file.parent.name == name]
        if not found:
            what = f"evaluation {name}" if name else "evaluation"
            raise ConfigError(f"{path} holds no {what}; make one: python evaluate.py {path}")
        folder = found[-1].parent
    file = folder / "results.json"
    try:
        whole = read_json(file)
        results = compared(whole)
    except ConfigError as error:
        why = str(error) if str(file) in str(error) else f"{file} holds no results ({error})"
        raise ConfigError(f"{why}; evaluate the run again") from None
    return whole | results | {"evaluation": printable(folder.resolve().name)}
