"""reason compare: several runs in one table and one plot."""

from __future__ import annotations

import glob
import shlex
import sys
from pathlib import Path
from typing import Any

from rich.console import Console

from datasets_gen.typed import Parser, quoted
from reason.config.overrides import differing
from reason.errors import ConfigError, printable
from reason.files import read_json
from reason.pretrained import pretrained_models
from reason.report.compare import alike, notes_on, tables, write_comparison
from reason.report.section import view
from reason.runs.directory import ROOT
from reason.runs.folders import replaced_folder
from reason.runs.results import compared, settings_of

DESCRIPTION = """Compare the evaluations of several runs in one table and one plot.

  reason compare runs/first runs/second                       the newest evaluation of each
  reason compare                                              all runs under runs/ that have one
  reason compare --name sudoku-6x6-test-T64 runs/*            the evaluation of that name
  reason compare runs/first/evaluation/A runs/first/evaluation/B     two evaluations of one run

Prints the figures and the settings that differ, and writes comparison.html, .png and .json to OUT (default
runs/comparison)."""


def main(argv: list[str]) -> int:
    """Load the evaluations, print and write the comparison; return the exit status."""
    parser = Parser(prog="reason compare", description=DESCRIPTION)
    parser.add_argument("runs", nargs="*", metavar="RUN", help="a run, or one of its evaluation folders")
    parser.add_argument("--name", help="which evaluation of every run (default: the newest)")
    parser.add_argument("--out", type=Path, default=Path("runs/comparison"), help="folder (default runs/comparison)")
    arguments = parser.parse_args(argv)
    mine = (run for run in sorted(ROOT.glob("*")) if (run / "config.json").exists() or _results_of(run))
    if not (runs := arguments.runs or list(map(str, mine))):
        raise ConfigError(f"{ROOT}/ holds no run; train one: python train.py sudoku-6x6")
    chosen = _with_evaluation(runs, arguments.out, arguments.name)
    loaded = [read_evaluation(Path(run), arguments.name) for run in chosen]
    names = [results["run"] for results in loaded]
    evaluations = [
        results | ({"run": f"{name}/{results['evaluation']}"} if names.count(name) > 1 else {})
        for name, results in zip(names, loaded, strict=True)
    ]
    settings = differing([results.pop("config") for results in evaluations])
    with replaced_folder(arguments.out, "a comparison") as folder:
        write_comparison(folder, evaluations, settings)
    console = Console()
    console.print(alike(evaluations), markup=False, highlight=False)
    for table in tables(evaluations, settings):
        console.print(view(table))
    for note in notes_on(evaluations):
        print(f"warning: {note}", file=sys.stderr)
    print(f"page {arguments.out / 'comparison.html'}\npicture {arguments.out / 'comparison.png'}")
    return 0


def _with_evaluation(runs: list[str], out: Path, name: str | None) -> list[str]:
    """Return the runs that have the evaluation, and print the others. A single run is always returned."""
    with_evaluation = [run for run in runs if Path(run) != out and _results_of(Path(run), name or "*")]
    if len(runs) == 1 or not with_evaluation:
        return runs
    for run in runs:
        if run not in with_evaluation and (Path(run) / "config.json").exists():
            print(f"{run} holds no evaluation{f' {name}' if name else ''} and is left out", file=sys.stderr)
    return with_evaluation


def _results_of(path: Path, name: str = "*") -> list[Path]:
    """Return the results.json of an evaluation folder, or those of a run or a model of the package, the newest last."""
    if str(path) in pretrained_models() and not any((path / file).exists() for file in ("config.json", "results.json")):
        path = Path("runs") / path  # its evaluations are written there
        if (path / "config.json").exists():  # the user's run
            return []
    if (path / "results.json").exists():
        return [path / "results.json"]
    pattern = name if name == "*" else glob.escape(name)
    return sorted(path.glob(f"evaluation/{pattern}/results.json"), key=lambda file: file.stat().st_mtime)


def read_evaluation(path: Path, name: str | None = None) -> dict[str, Any]:
    """Load an evaluation folder, or a run's newest (or named) evaluation. Raises ConfigError if there is none.

    The result has the folder's name as `evaluation`, and the evaluation's settings as `config`.
    """
    files = _results_of(path, name or "*")
    if not files:
        what, named = (f"evaluation {name}", f" {shlex.quote(f'name={name}')}") if name else ("evaluation", "")
        raise ConfigError(f"{path} holds no {what}; make one: python evaluate.py {quoted(path)}{named}")
    file = files[-1]
    try:
        whole = read_json(file)
        results = compared(whole)
    except ConfigError as error:
        raise ConfigError(f"{file} holds no results ({error}); evaluate the run again") from None
    folder = file.parent.resolve()
    config = settings_of(folder.parent.parent, results)
    return whole | results | {"evaluation": printable(folder.name), "config": config}
