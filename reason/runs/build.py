"""From a config to a trainer before its first step: the set, the model, the random streams."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import torch

import reason.config.capabilities as can
from datasets_gen.__main__ import main as generate
from datasets_gen.layout import splits_of
from reason.config.schema import Config
from reason.data import PuzzleData, Sampler, task_of
from reason.errors import ConfigError
from reason.evaluation.monitor import SplitMonitor
from reason.models import build_model
from reason.presets import PRESETS
from reason.training.checkpoint import checkpoints
from reason.training.compiling import compile_model
from reason.training.distributed import World
from reason.training.loop import Trainer
from reason.training.precision import activation_dtype
from reason.training.warm_start import train_gate_alone, warm_start


def names_presets_own_set(config: Config) -> bool:
    """Whether the config's set is the one that its preset makes, so that it can be made anew anywhere."""
    preset = PRESETS.get(config.name)
    own = preset.config().data if preset is not None else None
    return own is not None and (own.directory, own.generate) == (config.data.directory, config.data.generate)


def make_data_once(config: Config) -> None:
    """Make the set that a preset names, where it is not there yet, saying how.

    Raises:
        ConfigError: the preset names no set, or making it failed.
    """
    directory = config.data.directory
    if directory is not None and Path(directory).exists() and any(Path(directory).iterdir()):
        return
    if directory is None or config.data.generate is None:
        raise ConfigError(f"preset {config.name} names no data set; type data=DIR")
    arguments = [*shlex.split(config.data.generate), "--output-dir", directory]
    print(f"no set at {directory} yet; making it: python -m datasets_gen {shlex.join(arguments)}")
    status = generate(arguments)
    if status == 130:
        raise KeyboardInterrupt
    if status and not splits_of(directory):  # else another process has made it meanwhile
        raise ConfigError(f"the set {directory} could not be made; see above")


def load_training_set(config: Config, device: torch.device) -> PuzzleData:
    """The train split on the device.

    Raises:
        DatasetError: missing, torn or inconsistent.
    """
    if config.data.directory is None:
        raise ConfigError("the run names no data set of its own; type data=DIR")
    data = PuzzleData(config.data.directory, "train", device)
    if data.groups == 0:
        raise ConfigError(f"{data.directory} has an empty train split (splits: {', '.join(splits_of(data.directory))})")
    config.refuse_unmet(_asked_by(data))
    return data


def _asked_by(data: PuzzleData) -> list[can.Need]:
    """What a set's labels mean, and how its puzzles are told apart."""
    causal = bool(data.metadata.task.get("causal"))
    labels = f"{data.directory}, whose labels are {'the token after each cell' if causal else 'in place'},"
    other = f"data=DIR of a set {'made with --blank-answer' if causal else 'of causal labels'}"
    needs = [can.Need(labels, can.CAUSAL if causal else can.ALL_CELLS, other)]
    if (count := data.shape.num_puzzle_identifiers) > 1:
        identified = f"{data.directory}, whose puzzles have {count} identifiers,"
        needs.append(can.Need(identified, can.PUZZLE_IDENTIFIERS, "data=DIR of a set without"))
    return needs


def load_monitor_set(config: Config, data: PuzzleData) -> PuzzleData | None:
    """The split that chooses the best checkpoint, on the device; None where the set has none, or none is wanted.

    Raises:
        ConfigError: a split was named that is not there.
    """
    wanted = config.training.monitor
    there = splits_of(data.directory)
    if wanted.puzzles == 0 or (wanted.split not in there and wanted.split == "validation"):
        return None
    if wanted.split not in there:
        raise ConfigError(f"training.monitor.split={wanted.split}: {data.directory} has {', '.join(there)}")
    monitored = PuzzleData(data.directory, wanted.split, data.device)
    return monitored if len(monitored.scored_examples(min(len(monitored), wanted.puzzles))) else None


def build_trainer(config: Config, run: Path, data: PuzzleData, world: World | None = None) -> Trainer:
    """A trainer before its first step; every random stream comes from config.seed.

    All processes of a world draw the same puzzles and begin with the same weights; what else is random (exploration,
    noise) each draws from a stream of its own, the first as a single process would.

    Raises:
        ConfigError: the batch does not divide among the processes, or something cannot be compiled here.
    """
    world = world or World()
    config.model.refuse_training()
    batch_size = config.training.batch_size
    if batch_size % world.size:
        near = max(1, round(batch_size / world.size)) * world.size
        raise ConfigError(
            f"training.batch_size={batch_size} does not divide among {world.size} processes; "
            f"type training.batch_size={near}"
        )
    weights_seed, data_seed = (int(s) for s in np.random.SeedSequence(config.seed).generate_state(2, np.uint64) >> 1)
    torch.manual_seed(weights_seed)
    model = build_model(config.model, data.shape, activation_dtype(config.training.precision, data.device))
    if config.init_from is not None and not checkpoints(run):  # else its own checkpoint is put in place
        warm_start(model, Path(config.init_from), config.init_layers)
    if config.training.only == "gate":
        train_gate_alone(model)
    model = model.to(data.device)
    if not world.first:
        torch.manual_seed(int(np.random.SeedSequence([config.seed, world.rank]).generate_state(1, np.uint64)[0] >> 1))
    compile_model(model, config.training, data.device)
    task = task_of(data.metadata)
    symmetry = task.symmetry if task is not None and config.data.augment else None
    sampler = Sampler(data, batch_size, data_seed, symmetry)
    trainer = Trainer(config, run, model, sampler, _monitor(config, data, world), world)
    _refuse_long_traces(config, trainer.carry.state[0][0].numel())
    return trainer


def _monitor(config: Config, data: PuzzleData, world: World) -> SplitMonitor | None:
    read = load_monitor_set(config, data)
    rows, steps = config.training.batch_size // world.size, config.rollout.trained_steps
    return None if read is None else SplitMonitor(read, config.training.monitor.puzzles, steps, rows, world)


def why_processes_differ(config: Config) -> list[str]:
    """What keeps a run of several processes from having the loss curve of one, beyond the rounding of sums."""
    return [reason for section in config.sections for reason in section.per_process()]


EXACT_AT_MOST = 4096  # products in each exact trace


def _refuse_long_traces(config: Config, size: int) -> None:
    """Raises ConfigError where an exact trace takes too many products; `size` is S·D of a row's state."""
    traced = any(name.startswith("rh_") for name in config.loss.present)
    if traced and config.loss.trace.method == "exact" and size > EXACT_AT_MOST:
        raise ConfigError(
            f"loss.trace.method=exact takes S·D = {size} products a step, {EXACT_AT_MOST} at most are allowed; "
            "type loss.trace.method=hutchinson"
        )
