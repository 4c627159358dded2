"""train.py: PRESET → a run."""

from __future__ import annotations

import argparse
import math
import shlex
import sys
from pathlib import Path

from reason.assemble import build_trainer, load_training_set, make_data_once
from reason.config import describe_settings, override, read_config, split_arguments
from reason.errors import ConfigError
from reason.presets import preset
from reason.run import create_run, locked, read_record, refuse_existing, reserve_run
from reason.training.checkpoint import checkpoints, readable, refuse_weights_alone
from reason.training.loop import Outcome, Trainer
from reason.training.precision import activation_dtype, pick_device

DESCRIPTION = """Train a tiny recursive reasoner.

  python train.py sudoku-6x6                                  the set is made if it is not there
  python train.py sudoku-6x6 data=data/mine run=runs/mine     a set and a run folder of your own
  python train.py sudoku-6x6 model.l_cycles=6 optimizer.lr=3e-4
  python train.py run=runs/mine --resume                      go on after an interruption

Ctrl-C saves and stops; --resume goes on as if nothing had happened."""


def main(argv: list[str]) -> int:
    """Parse, build, train; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="train.py",
        description=DESCRIPTION,
        epilog=settings_help(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("words", nargs="*", metavar="PRESET | data=DIR | run=DIR | section.key=value")
    parser.add_argument("--resume", action="store_true", help="go on from the run's newest checkpoint")
    parser.add_argument("--max-steps", type=int, metavar="N", help="stop, saved, at optimizer step N of the run")
    parser.add_argument("--max-minutes", type=float, metavar="M", help="stop, saved, after M minutes")
    arguments = parser.parse_intermixed_args(argv)
    for flag, limit in (("--max-steps", arguments.max_steps), ("--max-minutes", arguments.max_minutes)):
        if limit is not None and not (limit > 0 and math.isfinite(limit)):
            raise ConfigError(f"{flag} {limit}: must be above 0")
    words, pairs = split_arguments(arguments.words, {"data": "data.directory"})
    trainer = _resumed(words, pairs) if arguments.resume else _started(words, pairs)
    dtype = str(trainer.model.dtype).removeprefix("torch.")
    size = f"{trainer.config.training.steps} steps, {trainer.model.parameter_count():,} parameters"
    print(f"run {trainer.run}: {size}, {dtype} on {trainer.device}")
    with locked(trainer.run):
        outcome = trainer.train(arguments.max_steps, arguments.max_minutes)
    print(_farewell(trainer, outcome))
    return 0


def _farewell(trainer: Trainer, outcome: Outcome) -> str:
    if outcome.stopped_by is None:
        return f"trained {outcome.step} steps; next: python evaluate.py {trainer.run}"
    return (
        f"stopped by {outcome.stopped_by} at step {outcome.step}, saved; "
        f"go on with: python train.py {shlex.quote(f'run={trainer.run}')} --resume"
    )


def _started(words: list[str], pairs: dict[str, str]) -> Trainer:
    if len(words) != 1:
        got = "none" if not words else " ".join(words)
        raise ConfigError(f"one preset is needed, got {got}; try: python train.py sudoku-6x6 (see: reason presets)")
    chosen = preset(words[0])
    run_name = pairs.pop("run", None)
    config = override(chosen.config(), pairs)
    if run_name:
        refuse_existing(Path(run_name))
    device = pick_device(config.device)
    activation_dtype(config.training.precision, device)  # refused before any data is made
    if "data.directory" not in pairs:
        make_data_once(config)
    data = load_training_set(config, device)
    run = Path(run_name) if run_name else reserve_run(config.name)
    trainer = build_trainer(config, run, data)
    create_run(run, config, data.shape, data.metadata.task, sys.argv, data.fingerprint)
    return trainer


def _resumed(words: list[str], pairs: dict[str, str]) -> Trainer:
    run_name, directory = pairs.pop("run", None), pairs.pop("data.directory", None)
    if run_name is None:
        raise ConfigError("--resume needs the run to go on with: type run=DIR")
    if pairs:
        raise ConfigError(f"--resume goes on with the run's own config; leave out {', '.join(pairs)}")
    run = Path(run_name)
    config = read_config(run / "config.json")
    if words and words != [config.name]:
        raise ConfigError(f"{run} was started from preset {config.name}, not {words[0]}; leave the preset out")
    if directory is not None:
        config = override(config, {"data.directory": directory})
    folder = next(readable(run), None)
    if folder is None and checkpoints(run):
        raise ConfigError(f"no checkpoint of {run} can be read; start anew with another run=DIR")
    if folder is not None:
        refuse_weights_alone(folder)
    data = load_training_set(config, pick_device(config.device))
    if data.fingerprint != read_record(run)["training_set"]:
        raise ConfigError(f"{data.directory} is not the set that {run} was started with; name that one with data=DIR")
    trainer = build_trainer(config, run, data)
    if folder is not None:
        trainer.resume(folder)
    if trainer.step >= config.training.steps:
        raise ConfigError(f"{run} is finished ({trainer.step} steps); next: python evaluate.py {run}")
    return trainer


def settings_help() -> str:
    """Every setting with its default and meaning, for --help."""
    rows = describe_settings()
    width = max(len(f"{key}={default}") for key, default, _ in rows)
    lines = [f"  {f'{key}={default}':{width}}  {text}" for key, default, text in rows]
    return "settings (a preset changes some; `reason presets NAME` shows one):\n" + "\n".join(lines)
