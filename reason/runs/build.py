"""Build trainers: `start` makes a new run, `resume` continues one; then `Trainer.train` trains."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path

import torch

from datasets_gen.typed import quoted
from reason.config.describe import has_mark, keys_of
from reason.config.overrides import Changes, as_typed, changes_between, derive, read_config
from reason.config.schema import Config
from reason.data.puzzles import Sampler, TrainingSets
from reason.errors import ConfigError
from reason.evaluation.monitor import SplitMonitor
from reason.losses.balance import AlgGradNorm
from reason.models import build_model
from reason.models.base import Reasoner
from reason.models.layout import accepted
from reason.models.mixing import group_names
from reason.plugins import extension, missing_import
from reason.rollout import first_carry
from reason.runs.directory import (
    change_config,
    chosen_checkpoint,
    create_run,
    locked,
    next_run,
    read_record,
    read_shape,
    refuse_existing,
    run_and_config,
    which_weights,
)
from reason.runs.sets import (
    fingerprints,
    load_monitor_sets,
    load_training_set,
    make_data_once,
    names_presets_own_set,
    refuse_other_set,
    with_published,
)
from reason.settings.base import Mark
from reason.training.accelerate import accelerate, compile_networks
from reason.training.auto import choices, resolve
from reason.training.checkpoint import checkpoints, load_fitting, load_weights, readable, saved_state, step_of
from reason.training.device import float32_by_onednn, pick_device
from reason.training.ema import Ema
from reason.training.generators import seed_this_process, seeds
from reason.training.log import Meters, read_metrics
from reason.training.loop import Trainer
from reason.training.optim import Optimizers
from reason.training.precision import LossScaling, dtypes
from reason.training.state import restore
from reason.training.warm_start import BEGINNINGS, moved
from reason.training.world import World, device_of_process, joined


def start(asked: Config, run: Path | None, stack: contextlib.ExitStack, *, make_data: bool) -> Trainer:
    """Make a new run; `stack` (an ExitStack) holds the lock of its folder and the process group.

    run: None for runs/NAME-N, NAME that of the config. make_data: find or make the set as data.generate says.
    """
    asked = with_published(asked) if make_data else asked
    if run is not None:
        refuse_existing(run)
    config, world = _world(asked, stack)
    if world.first and make_data:
        make_data_once(config)
    world.await_first()  # to make the set
    data = load_training_set(config, pick_device(config.device))
    run = Path(world.tell(str(run or next_run(asked.name))))
    trainer = build_trainer(config, run, data, world)
    if world.first:
        recorded = derive(asked, choices(trainer.config))  # with every `auto` resolved: a resumed run computes the same
        stack.enter_context(locked(run))
        refuse_existing(run)  # begun by another process meanwhile
        create_run(run, recorded, data.shape, data.metadata.task, sys.argv, fingerprints(trainer))
    return trainer


def resume(run: Path, changes: Changes, stack: contextlib.ExitStack) -> Trainer:
    """Load a run at its newest checkpoint; `changes` are settings that may change, and they are stored."""
    fixed = [key for key in changes if not has_mark(key, Mark.RESUMABLE)]
    if fixed:
        may = ", ".join(key for key in keys_of(Mark.RESUMABLE) if key not in ("name", "init_from"))
        raise ConfigError(
            f"--resume uses the config of the run; leave out {', '.join(fixed)} (what may change: {may}), or begin "
            f"another run from its weights: init_from={quoted(run)}"
        )
    asked = read_config(run / "config.json")
    if (file := missing_import(read_record(run).get("imports", []))) is not None:
        raise ConfigError(f"{run} was made with {file}, which may change what is trained: add --import {file}")
    changed = derive(asked, changes)
    config, world = _world(changed, stack)
    if world.first:
        stack.enter_context(locked(run))
    folder = _newest(run, world)
    if folder is not None and "init_from" in changes:
        raise ConfigError(f"init_from={changes['init_from']} changes nothing: {run} has weights; leave it out")
    if folder is not None and step_of(folder) >= config.training.steps:
        raise ConfigError(
            f"{run} is finished ({step_of(folder)} steps); another run may begin from its weights "
            f"(init_from={quoted(run)}); next: python evaluate.py {quoted(run)}"
        )
    if world.first and names_presets_own_set(config):
        make_data_once(config)  # an archive may come without its set
    world.await_first()  # to make the set
    data = load_training_set(config, pick_device(config.device))
    trainer = build_trainer(config, run, data, world)
    refuse_other_set(trainer, read_record(run)["training_set"])
    if folder is not None:
        restore(trainer, folder)
    if world.first and (recorded := derive(changed, choices(trainer.config))) != asked:
        change_config(run, recorded)  # the next --resume need not repeat them
    return trainer


def _world(config: Config, stack: contextlib.ExitStack) -> tuple[Config, World]:
    """Return the config with this process's device, and the World of processes."""
    config = derive(config, {"device": device_of_process(config.device)})
    return config, stack.enter_context(joined(pick_device(config.device)))


def _newest(run: Path, world: World) -> Path | None:
    """Return the checkpoint to resume from, equal in every process; None if training ended before the first."""
    folder = next(readable(run), None) if world.first else None
    folder = Path(name) if (name := world.tell(str(folder or ""))) else None
    if folder is None and checkpoints(run):
        raise ConfigError(f"no checkpoint of {run} can be read; start anew with another run=DIR")
    if folder is None and read_metrics(run):  # written after the first checkpoint
        raise ConfigError(f"{run} has been trained and its checkpoints are gone; put {run / 'checkpoints'} back")
    if folder is not None and "optimizer" not in saved_state(folder):
        raise ConfigError(f"{folder} holds weights but no training state to resume (imported); it can be evaluated")
    return folder


def build_trainer(config: Config, run: Path, data: TrainingSets, world: World | None = None) -> Trainer:
    """Check the config against the data sets and the hardware, resolve every `auto`, and build a Trainer at step 0."""
    world, device = world or World(), data.device
    float32_by_onednn()
    batch_size, shapes = config.training.batch_size, [part.shape for part in data.parts]
    if batch_size % world.size:
        near = max(1, round(batch_size / world.size)) * world.size
        raise ConfigError(
            f"training.batch_size={batch_size} does not divide among {world.size} processes; "
            f"type training.batch_size={near}"
        )
    if config.data.hints and not data.shape.structure.alphabet:
        raise ConfigError(
            f"data.hints={config.data.hints} fills cells in, and {data.directory} declares no symbols to fill in; "
            "type data.hints=0"
        )
    config, reasons = resolve(config, shapes, device)
    config = derive(config, json.loads(world.tell(json.dumps(choices(config)))))  # processors may differ
    model, lines = _initial_model(config, run, data)
    seed_this_process(config.seed, world)
    watched = load_monitor_sets(config, data)
    if config.evaluation.checkpoint == "best" and not watched:
        off = not config.training.monitor.puzzles
        why = "training.monitor.puzzles=0 reads none of it" if off else f"{data.directory} has none"
        raise ConfigError(
            f"evaluation.checkpoint=best is chosen on a validation split, and {why}; type evaluation.checkpoint=newest"
        )
    rows, steps = batch_size // world.size, config.rollout.trained_steps
    model.to(device)
    accelerate(model, config.model, dtypes(config.training.precision, device), device)
    if config.training.compile != "none":
        compile_networks(model)
    copies = torch.zeros(rows, dtype=torch.int64, device=device)  # of example 0: the first step replaces halted rows
    scaling = LossScaling(device, model.products or model.dtype)
    trainer = Trainer(
        config=config,
        run=run,
        data=data,
        device=device,
        world=world,
        model=model,
        monitor=SplitMonitor(watched, config.training.monitor.puzzles, steps, rows, world) if watched else None,
        reasons=[*reasons, *lines],
        samplers=[
            Sampler(part, batch_size, seeds(config.seed)[1] + number, config.data.augment, config.data.hints)
            for number, part in enumerate(data.parts)
        ],
        carries=[first_carry(model, part.take(copies), config.rollout, world.rank * rows) for part in data.parts],
        scaling=scaling,
        optimizers=Optimizers(model, config.optimizer, scaling),
        ema=None if config.ema.decay is None else Ema(model),
        balancer=AlgGradNorm(config, device) if config.balance.kind == "alg-grad-norm" else None,
        meters=Meters(device, world),
    )
    captured = config.training.compile == "graph"
    trainer.run_step = extension("graph", "capture").Captured(trainer) if captured else trainer.optimizer_step
    return trainer


def _initial_model(config: Config, run: Path, data: TrainingSets) -> tuple[Reasoner, list[str]]:
    """Return the model with initial weights, from config.seed or config.init_from, and the warm start's messages."""
    torch.manual_seed(seeds(config.seed)[0])
    model = build_model(config.model, data.shape, *dtypes(config.training.precision, data.device))
    for part in data.parts:
        if not accepted(model, part.shape):
            raise ConfigError(
                f"{part.directory} has {part.shape}, {data.parts[0].directory} {data.shape}, and this model cannot "
                "read both: type model.mixer=local, groups or attention, with model.positions=none or rotary-2d, or "
                "model.mixer=linear"
            )
    if config.init_from is None or checkpoints(run):  # a run with checkpoints loads their weights later
        return model, []
    source, trained_with = run_and_config(config.init_from)
    before, now = group_names(trained_with.model, read_shape(source)), group_names(config.model, data.shape)
    folder = chosen_checkpoint(source, "newest")
    weights = load_weights(folder, which_weights(folder, "auto"))  # those that evaluation uses (ours)
    if before != now:
        weights = moved(weights, model.state_dict(), before, now)
    if (begun := BEGINNINGS.get(config.model.kind)) is not None:
        weights = begun(model, weights)
    changes = changes_between(config, trained_with)
    fixed = {key: v for key, v in changes.items() if key.startswith("model.") and not has_mark(key, Mark.RESUMABLE)}
    typed = f"; settings: {' '.join(as_typed(fixed))}" if fixed else ""
    fix = f"give the model the settings and the kind of data set of that run{typed}"
    load_fitting(model, weights, f"init_from={source}", fix)
    changed = {
        "messages that start at zero": {*now} - {*before},
        "messages of the run that are left out": {*before} - {*now},
    }
    return model, [
        f"init_from={source}: {what}: {', '.join(sorted(names))}" for what, names in changed.items() if names
    ]
