"""From a config to a trainer before its first step: the set, the model, the random streams."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import torch

from datasets_gen.__main__ import main as generate
from datasets_gen.layout import splits_of
from reason.config import Config
from reason.data import PuzzleData, Sampler
from reason.errors import ConfigError
from reason.models import LoopedConfig, RecursiveConfig, build_model
from reason.tasks import task_of
from reason.training.checkpoint import checkpoints
from reason.training.loop import Trainer
from reason.training.precision import activation_dtype
from reason.training.warm_start import train_gate_alone, warm_start


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
    _refuse_unreadable(config.model, data)
    return data


def _refuse_unreadable(model: RecursiveConfig | LoopedConfig, data: PuzzleData) -> None:
    """Raises ConfigError where the labels mean something else to this model, or it cannot tell the puzzles apart."""
    sees_all = not (isinstance(model, LoopedConfig) and model.causal)
    if data.metadata.task.get("causal") and sees_all:
        mend = "type model.causal=true, or " if isinstance(model, LoopedConfig) else ""
        raise ConfigError(
            f"{data.directory} has causal labels, each cell's label the token after it, and this {model.kind} model "
            f"sees all cells at once; {mend}make the set with --blank-answer"
        )
    if not data.metadata.task.get("causal") and not sees_all:
        raise ConfigError(
            f"{data.directory} has its labels in place, and a causal model says the token after each cell; type "
            "model.causal=false, or make a causal set (python -m datasets_gen addition)"
        )
    if isinstance(model, LoopedConfig) and data.shape.identifiers > 1:
        raise ConfigError(
            f"{data.directory} tells its {data.shape.identifiers} puzzles apart by identifiers, which a looped model "
            "does not read; train a recursive one (model.prefix of at least 1)"
        )


def build_trainer(config: Config, run: Path, data: PuzzleData) -> Trainer:
    """A trainer before its first step; every random stream comes from config.seed."""
    weights_seed, data_seed = (int(s) for s in np.random.SeedSequence(config.seed).generate_state(2, np.uint64) >> 1)
    torch.manual_seed(weights_seed)
    model = build_model(config.model, data.shape, activation_dtype(config.training.precision, data.device))
    if config.init_from is not None and not checkpoints(run):  # else its own checkpoint is put in place
        warm_start(model, Path(config.init_from), config.init_layers)
    if config.training.only == "gate":
        train_gate_alone(model)
    model = model.to(data.device)
    if config.training.compile != "none":
        for network in model.networks():
            network.compile(backend=config.training.compile, dynamic=False, fullgraph=True)
    task = task_of(data.metadata)
    symmetry = task.symmetry if task is not None and config.data.augment else None
    return Trainer(config, run, model, Sampler(data, config.training.batch_size, data_seed, symmetry))
