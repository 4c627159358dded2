"""train.py: PRESET → a run."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import shlex
import sys
from pathlib import Path

from reason.cli.arguments import Parser
from reason.cli.memory import print_memory
from reason.config.inert import inert
from reason.config.overrides import derive, override, read_config, split_arguments
from reason.config.schema import Config
from reason.errors import ConfigError
from reason.presets import preset
from reason.runs.archive import SUFFIX, is_archive, unpack_run
from reason.runs.build import (
    build_trainer,
    fingerprints,
    load_training_set,
    make_data_once,
    names_presets_own_set,
    refuse_other_set,
    why_processes_differ,
)
from reason.runs.directory import (
    ROOT,
    change_config,
    create_run,
    has_lost_checkpoints,
    locked,
    read_record,
    refuse_existing,
    refuse_full_disk,
    reserve_run,
)
from reason.training.checkpoint import checkpoints, readable, refuse_weights_alone
from reason.training.distributed import World, device_of_process, joined
from reason.training.identity import MAY_CHANGE, may_change
from reason.training.loop import Outcome, Trainer
from reason.training.precision import dtypes, pick_device

PARSER = Parser("train.py", ("data", "run"))  # `reason/cli/help.py` says what each option is for
PARSER.add_argument("--resume", action="store_true")
PARSER.add_argument("--max-steps", type=int, metavar="N")
PARSER.add_argument("--max-minutes", type=float, metavar="M")
PARSER.add_argument("--memory", action="store_true")


def main(argv: list[str]) -> int:
    """Parse, build, train; returns the exit status."""
    arguments = PARSER.parsed(argv)
    for flag, limit in (("--max-steps", arguments.max_steps), ("--max-minutes", arguments.max_minutes)):
        if limit is not None and not (limit > 0 and math.isfinite(limit)):
            raise ConfigError(f"{flag} {limit}: must be above 0")
    words, pairs = split_arguments(arguments.words, {"data": "data.directory"})
    if arguments.memory:
        return print_memory(words, pairs)
    begin = _resumed if arguments.resume else _started
    with contextlib.ExitStack() as held:
        trainer = begin(words, pairs, held)
        _greet(trainer)
        outcome = _trained(trainer, arguments.max_steps, arguments.max_minutes)
        if trainer.world.first:
            print(_farewell(trainer, outcome))
    return 0


def _trained(trainer: Trainer, max_steps: int | None, max_minutes: float | None) -> Outcome:
    """Train; an OSError names the newest readable checkpoint and the command that resumes."""
    try:
        return trainer.train(max_steps, max_minutes)
    except OSError as error:
        good = next(readable(trainer.run), None)
        left = f"{good.name} is safe; then {_resume_line(trainer.run)}" if good else "nothing is saved yet"
        mend = "free some space; " if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
        raise OSError(error.errno, f"{error.strerror or error}: {mend}{left}", error.filename) from error


def _greet(trainer: Trainer) -> None:
    if not trainer.world.first:
        return
    config, world = trainer.config, trainer.world
    size = f"{config.training.steps} steps, {trainer.model.parameter_count():,} parameters"
    print(f"run {trainer.run}: {size}, {trainer.model.computes_in} on {trainer.device}")
    if trainer.monitor is None and config.training.monitor.puzzles:
        print("no validation split in the set, so no checkpoint is chosen as the best; the newest are kept")
    if world.size > 1:
        reasons = why_processes_differ(config)
        differs = f"not that of one process: {'; '.join(reasons)}" if reasons else "that of one process, up to rounding"
        print(f"{world.size} processes, {config.training.batch_size // world.size} rows each; loss curve: {differs}")


def _farewell(trainer: Trainer, outcome: Outcome) -> str:
    if outcome.stopped_by is None:
        best = "" if trainer.best is None else f", best at step {trainer.best.step} (exact {trainer.best.exact:.1%})"
        return f"trained {outcome.step} steps{best}; next: python evaluate.py {trainer.run}"
    return f"stopped by {outcome.stopped_by} at step {outcome.step}, saved; go on with: {_resume_line(trainer.run)}"


def _resume_line(run: Path) -> str:
    return f"python train.py {shlex.quote(f'run={run}')} --resume"


def _world(config: Config, held: contextlib.ExitStack) -> tuple[Config, World]:
    """The config with this process's device, and the processes."""
    config = derive(config, {"device": device_of_process(config.device)})
    return config, held.enter_context(joined(pick_device(config.device)))


def _started(words: list[str], pairs: dict[str, str], held: contextlib.ExitStack) -> Trainer:
    if len(words) != 1:
        got = "none" if not words else " ".join(words)
        raise ConfigError(f"one preset is needed, got {got}; try: python train.py sudoku-6x6 (see: reason presets)")
    chosen = preset(words[0])
    run_name = pairs.pop("run", None)
    if run_name and is_archive(run_name):
        raise ConfigError(f"run={run_name} is an archive's name: type --resume to go on with it, or another run=DIR")
    asked = override(chosen.config(), pairs)
    for key, why in inert(asked).items():
        if key in pairs:
            print(f"{key}={pairs[key]} changes nothing in this training: {why}")
    if run_name:
        refuse_existing(Path(run_name))
    dtypes(asked.training.precision, pick_device(asked.device))  # refused before any data is made
    config, world = _world(asked, held)
    if world.first and "data.directory" not in pairs:
        make_data_once(config)
    world.await_first()  # to make the set
    data = load_training_set(config, pick_device(config.device))
    run = Path(world.tell(run_name or (str(reserve_run(config.name)) if world.first else "")))
    trainer = build_trainer(config, run, data, world)
    if world.first:
        create_run(run, asked, data.shape, data.metadata.task, sys.argv, fingerprints(trainer))
        held.enter_context(locked(run))
        refuse_full_disk(run, trainer.checkpoint_size())
    return trainer


def _resumed(words: list[str], pairs: dict[str, str], held: contextlib.ExitStack) -> Trainer:
    run, words = _unpacked(words, pairs)
    fixed = [key for key in pairs if not may_change(key)]
    if fixed:
        raise ConfigError(
            f"--resume goes on with the run's own config; leave out {', '.join(fixed)} (what may change: "
            f"{', '.join(key for key in MAY_CHANGE if key != 'name')})"
        )
    asked = read_config(run / "config.json")
    if words and words != [asked.name]:
        raise ConfigError(f"{run} was started from preset {asked.name}, not {words[0]}; leave the preset out")
    changed = override(asked, pairs)
    config, world = _world(changed, held)
    if world.first:
        held.enter_context(locked(run))
    folder = _newest(run, world)
    if world.first and names_presets_own_set(config):
        make_data_once(config)  # an archive may come without its set
    world.await_first()  # to make the set
    data = load_training_set(config, pick_device(config.device))
    trainer = build_trainer(config, run, data, world)
    refuse_other_set(trainer, read_record(run)["training_set"])
    if folder is not None:
        trainer.resume(folder)
    if trainer.step >= config.training.steps:
        raise ConfigError(f"{run} is finished ({trainer.step} steps); next: python evaluate.py {run}")
    if world.first:
        refuse_full_disk(run, trainer.checkpoint_size())
        if changed != asked:
            change_config(run, changed)  # the next --resume need not repeat them
    return trainer


def _unpacked(words: list[str], pairs: dict[str, str]) -> tuple[Path, list[str]]:
    """The run to resume, unpacked if an archive was named, and the remaining words."""
    archives = [word for word in words if is_archive(word)]
    run_name = pairs.pop("run", None)
    if run_name is None and not archives:
        raise ConfigError("--resume needs the run to go on with: type run=DIR")
    if run_name is not None and is_archive(run_name):
        archives, run_name = [*archives, run_name], None
    if len(archives) > 1:
        raise ConfigError(f"one archive at a time, got {' '.join(archives)}")
    if not archives:
        if Path(str(run_name)).is_file():
            raise ConfigError(f"{run_name} is a file; --resume needs a run's folder, or its archive ({SUFFIX})")
        return Path(str(run_name)), words
    archive = Path(archives[0])
    run = Path(run_name) if run_name else ROOT / archive.name.removesuffix(SUFFIX)
    rest = [word for word in words if word != archives[0]]
    if int(os.environ.get("RANK", "0")):
        raise ConfigError(f"unpack {archive} before torchrun: tar xzf {archive} in a folder of its own")
    if (run / "config.json").exists():
        raise ConfigError(f"{run} is there already, from this archive or another: {_resume_line(run)}, or name run=DIR")
    unpack_run(archive, run)
    print(f"{archive} unpacked to {run}")
    return run, rest


def _newest(run: Path, world: World) -> Path | None:
    """The checkpoint to resume from, the same in every process; None if training ended before its first.

    Raises:
        ConfigError: there are checkpoints and none can be read, or it is an imported one.
    """
    folder = next(readable(run), None) if world.first else None
    folder = Path(name) if (name := world.tell(str(folder or ""))) else None
    if folder is None and checkpoints(run):
        raise ConfigError(f"no checkpoint of {run} can be read; start anew with another run=DIR")
    if folder is None and has_lost_checkpoints(run):
        raise ConfigError(f"{run} has been trained and its checkpoints are gone; put {run / 'checkpoints'} back")
    if folder is not None:
        refuse_weights_alone(folder)
    return folder
