"""reason compare: several runs in one table and one plot."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

from rich.console import Console

from datasets_gen.typed import Parser, quoted, typed
from reason.errors import ConfigError, printable
from reason.files import read_json
from reason.pretrained import pretrained_models
from reason.report.compare import alike, differences, figures, notes_on, write_comparison
from reason.report.section import view
from reason.runs.folders import replaced_folder
from reason.runs.results import compared, settings_of

DESCRIPTION = """Compare the evaluations of several runs in one table and one plot.

  reason compare runs/first runs/second                       the newest evaluation of each
  reason compare runs/*                                       all of them
  reason compare --name sudoku-6x6-test-T64 runs/*            the evaluation of that name
  reason compare runs/first/evaluation/A runs/first/evaluation/B     two evaluations of one run

Prints the figures and the settings that differ, and writes comparison.html, .png and .json to OUT (default
runs/comparison)."""


def main(argv: list[str]) -> int:
    """Read, print, write; returns the exit status."""
    parser = Parser(prog="reason compare", description=DESCRIPTION)
    parser.add_argument("runs", nargs="+", metavar="RUN", help="a run, or one of its evaluation folders")
    parser.add_argument("--name", help="which evaluation of every run (default: the newest)")
    parser.add_argument("--out", type=Path, default=Path("runs/comparison"), help="folder (default runs/comparison)")
    arguments = parser.parse_args(argv)
    evaluations = [read_evaluation(run, arguments.name) for run in _runs(arguments.runs, arguments.out)]
    names = [results["run"] for results in evaluations]
    evaluations = [
        results | {"run": f"{results['run']}/{results['evaluation']}"} if names.count(results["run"]) > 1 else results
        for results in evaluations
    ]
    settings = differing([results.pop("config") for results in evaluations])
    with replaced_folder(arguments.out, "a comparison") as folder:
        write_comparison(folder, evaluations, settings)
    console = Console()
    console.print(alike(evaluations), markup=False, highlight=False)
    for table in (figures(evaluations), differences(evaluations, settings)):
        if table.rows:
            console.print(view(table))
    for note in notes_on(evaluations):
        print(f"warning: {note}", file=sys.stderr)
    print(f"page {arguments.out / 'comparison.html'}\npicture {arguments.out / 'comparison.png'}")
    return 0


def _runs(named: list[str], out: Path) -> list[Path]:
    """Those of several folders, as `runs/*` names them, that are runs with an evaluation; one alone as it is."""
    folders = [Path(name) for name in named]
    kept = [
        folder
        for folder in folders
        if not folder.is_dir() or is_model(folder) or (folder != out and _is_evaluated(folder))
    ]
    if len(folders) == 1 or not kept:
        return folders
    for folder in folders:
        if folder not in kept and (folder / "config.json").exists():
            mend = typed(f"make one: python evaluate.py {quoted(folder)}")
            print(f"{folder} holds no evaluation and is left out; {mend}", file=sys.stderr)
    return kept


def is_model(path: Path) -> bool:
    """Whether a model of the package is meant, and no run or evaluation of one's own."""
    own = any((path / file).exists() for file in ("config.json", "results.json"))
    return str(path) in pretrained_models() and not own


def _is_evaluated(folder: Path) -> bool:
    return (folder / "results.json").exists() or any(folder.glob("evaluation/*/results.json"))


def read_evaluation(path: Path, name: str | None = None) -> dict[str, Any]:
    """The results of an evaluation folder, or of a run's newest (or named) evaluation.

    With the folder's name as `evaluation`, and the settings that it had as `config`.

    Raises:
        ConfigError: there are none, or the file is not one of results.
    """
    asked = path
    if is_model(path) and not (Path("runs") / path / "config.json").exists():
        path = Path("runs") / path  # where its evaluations are written
    if (path / "results.json").exists():
        folder = path
    else:
        found = sorted((path / "evaluation").glob("*/results.json"), key=lambda file: file.stat().st_mtime)
        if name is not None:
            found = [file for file in found if file.parent.name == name]
        if not found:
            what, named = (f"evaluation {name}", f" {shlex.quote(f'name={name}')}") if name else ("evaluation", "")
            raise ConfigError(f"{asked} holds no {what}; make one: python evaluate.py {quoted(asked)}{named}")
        folder = found[-1].parent
    file = folder / "results.json"
    try:
        whole = read_json(file)
        results = compared(whole)
    except ConfigError as error:
        why = str(error) if str(file) in str(error) else f"{file} holds no results ({error})"
        raise ConfigError(f"{why}; evaluate the run again") from None
    own = {"evaluation": printable(folder.resolve().name), "config": settings_of(folder.resolve().parents[1], results)}
    return whole | results | own
