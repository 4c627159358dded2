"""`python train.py PRESET`: train a run, or resume it."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import shlex
from pathlib import Path

from datasets_gen.layout import splits_of
from datasets_gen.typed import quoted, typed
from reason.cli.help import Parser
from reason.config.describe import idle_lines
from reason.config.overrides import override, parsed, read_config, split_arguments
from reason.errors import ConfigError
from reason.plugins import FOREIGN_COMMANDS, IMPORTED, load_extensions, user_fault
from reason.presets import preset
from reason.runs.build import resume, start
from reason.runs.directory import folder_of, is_archive, newest_run
from reason.training.checkpoint import readable
from reason.training.interrupt import Outcome
from reason.training.loop import Trainer
from reason.training.world import restarted_by_torchrun

PARSER = Parser("train.py")  # the options are described in reason.cli.help
PARSER.add_argument("--resume", action="store_true")
PARSER.add_argument("--max-steps", type=int, metavar="N")
PARSER.add_argument("--max-minutes", type=float, metavar="M")


def main(argv: list[str]) -> int:
    """Parse, build and train; return the exit status. An error for HRM's or TRM's words shows our command."""
    try:
        return _train(argv)
    except ConfigError:
        load_extensions()  # `main` may be called without `reason.cli`
        if (command := next(filter(None, (read(argv) for read in FOREIGN_COMMANDS)), None)) is not None:
            raise ConfigError(command) from None
        raise


def _train(argv: list[str]) -> int:
    arguments = PARSER.parsed(argv)
    for flag, limit in (("--max-steps", arguments.max_steps), ("--max-minutes", arguments.max_minutes)):
        if limit is not None and not (limit > 0 and math.isfinite(limit)):
            raise ConfigError(f"{flag} {limit}: must be above 0")
    words, pairs = split_arguments(arguments.words, {"data": "data.directory"})
    begin = _resumed if arguments.resume else _restarted if restarted_by_torchrun(pairs.get("run")) else _started
    with contextlib.ExitStack() as stack:
        trainer = begin(words, pairs, stack)
        if arguments.max_steps is not None and trainer.step >= arguments.max_steps:
            raise ConfigError(
                f"--max-steps {arguments.max_steps}: {trainer.run} is at step {trainer.step} already; name a later one"
            )
        _print_start(trainer)
        outcome = _trained(trainer, arguments.max_steps, arguments.max_minutes)
        if trainer.world.first:
            print(typed(_summary(trainer, outcome)))
    return 0


def _trained(trainer: Trainer, max_steps: int | None, max_minutes: float | None) -> Outcome:
    """Train; an OSError names the newest readable checkpoint and the command that resumes."""
    try:
        return trainer.train(max_steps, max_minutes)
    except OSError as error:
        if user_fault(error) is not None:
            raise
        good = next(readable(trainer.run), None)
        left = f"{good.name} is safe; then {_resume_line(trainer.run)}" if good else "nothing is saved yet"
        fix = "free some space; " if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
        raise OSError(error.errno, f"{error.strerror or error}: {fix}{left}", error.filename) from error


def _print_start(trainer: Trainer) -> None:
    if not trainer.world.first:
        return
    config, world = trainer.config, trainer.world
    groups, own = trainer.data.groups, config.data.generate.get("train", 0)
    steps = f"{config.training.steps} steps ({config.drawn / groups:,.4g} epochs of {groups:,} puzzles)"
    size = f"{steps}, {trainer.model.parameter_count():,} parameters"
    compiled = {"inductor": ", compiled", "graph": ", compiled, as graphs"}.get(config.training.compile, "")
    print(f"run {trainer.run}: {size}, {trainer.model.computes_in} on {trainer.device}{compiled}")
    if own and "published" in config.data.generate and groups != own:
        print(f"warning: {config.name} states its length for {own:,} puzzles: {config.drawn / own:,.4g} epochs of them")
    for reason in trainer.reasons:
        print(reason)
    for data in trainer.data.parts:
        if config.evaluation.split not in splits_of(data.directory):
            print(f"warning: {data.directory} has no {config.evaluation.split} split; evaluate another set, data=DIR")
        if data.shape.num_puzzle_identifiers > 1 and not (data.directory / "identifiers.json").is_file():
            print(f"warning: {data.directory / 'identifiers.json'} is missing; ARC's votes read the task names there")
    if trainer.monitor is None and config.training.monitor.puzzles:
        print("no validation split in the set, so no checkpoint is chosen as the best; the newest are kept")
    if world.size > 1:
        print(f"{world.size} processes, {config.training.batch_size // world.size} rows each")


def _summary(trainer: Trainer, outcome: Outcome) -> str:
    if outcome.stopped_by is None:
        best = "" if trainer.best is None else f", best at step {trainer.best.step} (exact {trainer.best.exact:.1%})"
        return f"trained {outcome.step} steps{best}; next: python evaluate.py {quoted(trainer.run)}{_imports()}"
    return f"stopped by {outcome.stopped_by} at step {outcome.step}, saved; resume with: {_resume_line(trainer.run)}"


def _resume_line(run: Path) -> str:
    return f"python train.py {shlex.quote(f'run={run}')} --resume{_imports()}"


def _imports() -> str:
    """Return the `--import` options that a later command must repeat to load the same files."""
    return "".join(f" --import {shlex.quote(file)}" for file in IMPORTED)


def _started(words: list[str], pairs: dict[str, str], stack: contextlib.ExitStack) -> Trainer:
    if len(words) != 1:
        got = "none" if not words else " ".join(words)
        raise ConfigError(f"one preset is needed, got {got}; try: python train.py sudoku-6x6 (see: reason presets)")
    chosen = preset(words[0])
    run = pairs.pop("run", None)
    if run == "":
        raise ConfigError("run= names no folder; type run=DIR, or leave it out")
    if run and is_archive(run):
        raise ConfigError(f"run={run} is an archive's name: type --resume to continue it, or another run=DIR")
    asked = override(chosen.config(), pairs)
    if generate := next((key for key in pairs if key.startswith("data.generate")), None):
        made = next(filter(splits_of, asked.data.directories), None)
        if made and not int(os.environ.get("RANK", "0")):  # others may see the set that the first process makes
            raise ConfigError(f"{generate} changes nothing: {made} exists; make another set and type data=DIR")
    for line in idle_lines(dict(pairs), asked.idle, "this training"):
        print(line)
    return start(asked, Path(run) if run else None, stack, make_data="data.directory" not in pairs)


def _restarted(words: list[str], pairs: dict[str, str], stack: contextlib.ExitStack) -> Trainer:
    trainer = _resumed(words, {"run": pairs["run"]}, stack)  # with all the settings of the first attempt
    if trainer.world.first:
        print(f"{trainer.run} continues at step {trainer.step}, with the settings in its config.json")
    return trainer


def _resumed(words: list[str], pairs: dict[str, str], stack: contextlib.ExitStack) -> Trainer:
    named, target = pairs.pop("run", None), None
    if archive := next(filter(is_archive, words), None):
        words, named, target = [word for word in words if word != archive], archive, named
    if named is None:
        named = str(newest_run())
        print(f"no run named; taking the newest: {named}")
    run = folder_of(named, target)
    if is_archive(named):
        print(f"{named} unpacked to {run}")
    config = read_config(run / "config.json")
    if words and words != [config.name]:
        raise ConfigError(f"{run} was started from preset {config.name}, not {words[0]}; leave the preset out")
    return resume(run, parsed(config, pairs), stack)
