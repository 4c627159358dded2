"""reason ablate: trains a preset's variants, each with several seeds; repeated, it continues a stopped ablation.

`python -m reason.extensions.ablation.command FOLDER RUN` executes one of the runs in a separate process.
"""

from __future__ import annotations

import contextlib
import math
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout
from pydantic import ValidationError
from rich.console import Console

from datasets_gen.layout import splits_of
from datasets_gen.typed import Parser
from reason.cli import guarded
from reason.config.overrides import override, read_config, split_arguments
from reason.errors import ConfigError, first_fault
from reason.extensions.ablation import slurm
from reason.extensions.ablation.local import end_with_parent, why_ended, work_through
from reason.extensions.ablation.report import NOTE, write_ablation
from reason.extensions.ablation.variants import EVALUATION, PRESET, Ablation, Cell, cell_of, open_folder
from reason.presets import preset, tables
from reason.report.section import Results, Table, view
from reason.runs.build import resume, start
from reason.runs.evaluation import evaluate_run
from reason.runs.folders import replaced_folder
from reason.runs.sets import make_data_once, require_set
from reason.training.interrupt import StopRequest

if TYPE_CHECKING:
    from submitit import Executor

DESCRIPTION = """Train and evaluate a preset's variants, several seeds each, at equal puzzle-steps; compare them.

  reason ablate sudoku-6x6 model.h_cycles=2,1 model.activation=silu,tanh           every combination: 4 × 3 seeds
  reason ablate maze-10x10 rollout.carry=persistent,same-batch ema.decay=0.995,none --one-at-a-time
  reason ablate sudoku-9x9 loss.weights.equil_z=0,1 training.steps=2000 seeds=5 steps=64 --max-minutes 60
  reason ablate maze-10x10,maze-10x10-hrm training.steps=1500 --also-on data/maze-20x20             presets, transfer
  reason ablate cmm-10 --as-published seeds=1                                              a paper's table as published
  reason ablate sudoku-9x9 loss.weights.equil_z=0,1 --on slurm --max-minutes 240 --sbatch gpus=1    an array of jobs

KEY=A,B varies a setting, and A is the base; KEY=A sets it in all runs. seeds=N (default 3) uses N seeds from 0 on, or
from seed=S. Several presets are varied like a setting. The command prints mean ± standard deviation, the differences
from the base paired by seed, and a verdict; it writes summary.html, .png and .json. If it is stopped or killed, the
same command continues. --as-published trains each preset, or each row of a paper's table, for its published epochs.

--on slurm (needs the extra: pip install 'recursive-reasoners[slurm]') submits a job of --max-minutes for every missing
run, and returns. The same command reports their progress, submits unfinished runs again, and prints the table.
docs/ablation.md has the details.
"""


def main(argv: list[str]) -> int:
    """Train and evaluate the runs that are missing, and print the summary; returns the exit status."""
    parser = Parser(prog="reason ablate", description=DESCRIPTION)
    parser.add_argument("words", nargs="+", metavar="PRESET[,PRESET] | KEY=A,B | KEY=A | seeds=N")
    parser.add_argument("--one-at-a-time", action="store_true", help="change one setting of the base at a time")
    published = "train each preset for its published epochs, not for the base's puzzle-steps; PRESET may be a table"
    parser.add_argument("--as-published", action="store_true", help=published)
    also = "also evaluate the runs on another set, for example of another size; may be repeated"
    parser.add_argument("--also-on", action="append", default=[], metavar="DIR", help=also)
    minutes = "save and stop after M minutes; with --on slurm: the time limit of each job"
    parser.add_argument("--max-minutes", type=float, default=math.inf, metavar="M", help=minutes)
    at_once = "runs in parallel (default 1; with --on slurm: all); runs on one machine share its cores"
    parser.add_argument("--jobs", type=int, metavar="J", help=at_once)
    parser.add_argument("--on", choices=["slurm"], help="submit a job array, or print its progress")
    option = "with --on slurm: an option of sbatch, as in --sbatch partition=gpu --sbatch gpus=1"
    parser.add_argument("--sbatch", action="append", default=[], metavar="KEY=VALUE", help=option)
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder (default runs/ablation-PRESET)")
    arguments = parser.parse_intermixed_args(argv)
    for option, value in (("--max-minutes", arguments.max_minutes), ("--jobs", arguments.jobs)):
        if value is not None and not value > 0:
            raise ConfigError(f"{option} {value}: must be above 0")
    ablation = asked(arguments.words, arguments.one_at_a_time, arguments.also_on, arguments.as_published)
    folder = arguments.out or Path("runs") / f"ablation-{ablation.preset}"
    cells = ablation.cells(folder)
    through = None
    if arguments.on == "slurm":
        through = slurm.executor(folder, arguments.max_minutes, arguments.jobs or len(cells), arguments.sbatch)
    elif arguments.sbatch:
        raise ConfigError(f"--sbatch {arguments.sbatch[0]}: an option of SLURM's jobs; type --on slurm as well")
    ablation.refuse_idle()
    print(f"{folder}: variants × seeds = {len(ablation.variants())} × {ablation.seeds} = {len(cells)} runs", flush=True)
    if "data.directory" in ablation.shared:
        for directory in cells[0].config.data.directories:
            require_set(cells[0].config, directory)
    elif any(cell.missing(ablation) for cell in cells):
        make_data_once(cells[0].config)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder / ".lock", timeout=0):
            open_folder(folder, ablation)
            if through is not None:
                return _submitted(folder, ablation, cells, through)
            return _worked_through(folder, ablation, cells, arguments.jobs or 1, arguments.max_minutes)
    except Timeout:
        raise ConfigError(f"another reason ablate works in {folder}; wait for it, or type another --out DIR") from None


def _worked_through(folder: Path, ablation: Ablation, cells: list[Cell], jobs: int, minutes: float) -> int:
    """Train and evaluate on this machine, and print the summary; returns the exit status."""
    with StopRequest() as stop:
        failed = work_through(ablation, cells, jobs, time.monotonic() + 60 * minutes, stop)
    _summarize(folder, ablation, cells)
    if left := sum(bool(cell.missing(ablation)) for cell in cells):
        print(f"{left} runs are unfinished, {len(failed)} of them failed; the same command continues them")
    return 128 + stop.number if stop.number is not None else 1 if failed else 0


def _submitted(folder: Path, ablation: Ablation, cells: list[Cell], through: Executor) -> int:
    """Print the summary, and submit the runs that are neither finished nor in a job; returns the exit status."""
    before, states = {run: job for job, run in slurm.submitted(folder).items()}, slurm.queued()
    left = [cell for cell in cells if cell.missing(ablation)]  # after `queued`: ended jobs then have results
    _summarize(folder, ablation, cells)
    idle = [cell for cell in left if before.get(cell.run.name) not in states]
    for cell in idle:
        if job := before.get(cell.run.name):
            log = slurm.log_of(folder, job)
            reason = why_ended(0, log) if log.exists() else "no message"
            print(f"job {job} of {cell.run} ended: {reason}; log {log}", file=sys.stderr)
    if idle:
        slurm.submit(through, folder, idle, work)
        states = slurm.queued()
    jobs = {run: job for job, run in slurm.submitted(folder).items()}
    for cell in left:
        job = jobs[cell.run.name]
        print(f"{cell.run.name}  job {job}  {states.get(job, 'ended')}  {cell.variant}")
    if left:
        print(f"{len(left)} runs are unfinished, {len(idle)} submitted now; the same command prints their progress")
    return 0


def asked(words: list[str], one_at_a_time: bool, also_on: Sequence[str] = (), as_published: bool = False) -> Ablation:
    """Return the ablation that a command line describes."""
    names, pairs = split_arguments(words, {"data": "data.directory", "steps": "evaluation.steps"})
    seeds = {"seeds": pairs.pop("seeds", None), "first_seed": pairs.pop("seed", None)}
    if len(names) != 1:
        raise ConfigError(f"one preset is needed, got {' '.join(names) or 'none'}; see: reason ablate --help")
    presets = names[0].split(",")
    if as_published:
        printed = [(table.name, table.preset_name(row)) for table in tables() for row in table.rows if not row.variant]
        presets = [each for name in presets for each in [row for of, row in printed if of == name] or [name]]
    values = {key: tuple(dict.fromkeys(_values(key, text))) for key, text in pairs.items()}
    shared = {key: some[0] for key, some in values.items() if len(some) == 1}
    varied = {key: some for key, some in ({PRESET: tuple(presets)} | values).items() if len(some) > 1}
    evaluation = {key: shared.pop(key) for key in list(shared) if key.startswith("evaluation.")}
    if several := next((key for key, text in evaluation.items() if key != "evaluation.studies" and "," in text), None):
        raise ConfigError(f"{several}={evaluation[several]}: settings of evaluations cannot be varied; type one value")
    if seeds["seeds"] is None and not varied:
        preset(presets[0])  # refuses an unknown name
        raise ConfigError(
            "nothing is varied: type several values of a setting, model.h_cycles=2,1, the base first; "
            "or seeds=N for N seeds of one recipe"
        )
    if not all(map(splits_of, also_on)) or len({Path(folder).name for folder in also_on}) < len(also_on):
        raise ConfigError(f"--also-on {' '.join(also_on)}: puzzle sets of different names are needed")
    try:
        return Ablation(
            preset=presets[0], shared=shared, varied=varied, one_at_a_time=one_at_a_time, as_published=as_published,
            evaluation=evaluation, also_on=list(also_on),
            **{key: text for key, text in seeds.items() if text is not None},
        )  # fmt: skip
    except ValidationError as error:
        where, what, value = first_fault(error)
        raise ConfigError(f"{where}={value}: {what}") from None


def _values(key: str, text: str) -> list[str]:
    """Split a text into values; lists, tables, sets of several folders and settings of evaluations are one value."""
    return [text] if text[:1] in "[{" or key.startswith(("data.directory", "evaluation.")) else text.split(",")


def _summarize(folder: Path, ablation: Ablation, cells: list[Cell]) -> None:
    """Print and write the summary of the runs that have been evaluated."""
    for evaluation in ablation.evaluations():
        runs: dict[str, dict[int, Results]] = {name: {} for name in ablation.variants()}
        for cell in cells:
            if (results := cell.results(evaluation)) is not None:
                runs[cell.variant][cell.seed] = results
        if not any(runs.values()):
            continue
        apart = evaluation.removeprefix(EVALUATION)  # "-NAME" of another set
        on = f" on {apart[1:]}" if apart else ""
        title = f"{ablation.preset}{on}: {sum(map(len, runs.values()))} of {len(cells)} runs"
        page = folder / f"summary{apart}"
        with replaced_folder(page, "a summary") as scratch:
            table = write_ablation(scratch, title, runs)
        for place, (variant, _, parameters, *_) in enumerate(table.rows, 1):
            print(f"{place:>3}  {variant} ({parameters} parameters)")
        names, numbered = table.columns, [[str(place), row[1], *row[3:]] for place, row in enumerate(table.rows, 1)]
        Console().print(view(Table(title, ("", names[1], *names[3:]), numbered, left=(7,))))  # fits into 80 columns
        print(f"{NOTE}\npage {page / 'summary.html'}")


def work(folder: Path, name: str) -> int:
    """Begin or continue a run, then evaluate it; prints errors in one line, and returns the exit status."""
    return guarded(lambda _: _worked(folder, name), [])


def _worked(folder: Path, name: str) -> int:
    ablation, cell = cell_of(folder, name)
    if not cell.trained():
        with contextlib.ExitStack() as held:
            if (cell.run / "config.json").exists():
                trainer = resume(cell.run, {}, held)
            else:
                trainer = start(cell.config, cell.run, held, make_data=False)
            trainer.train()
    if cell.trained():  # false: it was stopped
        config = override(read_config(cell.run / "config.json"), ablation.evaluation)
        for evaluation, directory in cell.missing(ablation).items():
            read = config if directory is None else override(config, {"data.directory": directory})
            evaluate_run(cell.run, read, evaluation)
    return 0


if __name__ == "__main__":
    threading.Thread(target=end_with_parent, daemon=True).start()
    sys.exit(guarded(lambda words: _worked(Path(words[0]), words[1]), sys.argv[1:]))
