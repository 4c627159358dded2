"""From a config to a trainer before its first step: the set, the model, the random streams."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import torch

from datasets_gen.__main__ import main as generate
from datasets_gen.layout import splits_of
from reason.config.schema import Config
from reason.data import PuzzleData, Sampler, task_of
from reason.errors import ConfigError
from reason.evaluation.monitor import SplitMonitor
from reason.models import LoopedConfig, RecursiveConfig, build_model
from reason.models.base import Reasoner, Shape
from reason.presets import PRESETS
from reason.training.checkpoint import checkpoints
from reason.training.compiling import compile_model
from reason.training.distributed import World
from reason.training.loop import Trainer
from reason.training.memory import Memory, estimate
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
    if isinstance(model, LoopedConfig) and data.shape.num_puzzle_identifiers > 1:
        raise ConfigError(
            f"{data.directory} tells its {data.shape.num_puzzle_identifiers} puzzles apart by identifiers, which a "
            "looped model does not read; train a recursive one (model.puzzle_emb_len of at least 1)"
        )


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
    _refuse_what_the_model_cannot(config, model)
    compile_model(model, config.training, data.device)
    task = task_of(data.metadata)
    symmetry = task.symmetry if task is not None and config.data.augment else None
    sampler = Sampler(data, batch_size, data_seed, symmetry)
    return Trainer(config, run, model, sampler, _monitor(config, data, world), world)


def _monitor(config: Config, data: PuzzleData, world: World) -> SplitMonitor | None:
    read = load_monitor_set(config, data)
    rows, steps = config.training.batch_size // world.size, config.rollout.trained_steps
    return None if read is None else SplitMonitor(read, config.training.monitor.puzzles, steps, rows, world)


def estimate_memory(config: Config, shape: Shape, dtype: torch.dtype, device: str) -> Memory:
    """What training this config on puzzles of this shape would hold, before anything is made."""
    return estimate(config, lambda dtype: build_model(config.model, shape, dtype), shape, dtype, device)


def why_processes_differ(config: Config) -> list[str]:
    """What keeps a run of several processes from having the loss curve of one, beyond the rounding of sums."""
    reasons = []
    if config.rollout.halt_exploration_prob > 0 and config.rollout.supervision_steps > 1:
        reasons.append("rollout.halt_exploration_prob draws per process")
    model, weights = config.model, config.loss.weights
    if isinstance(model, RecursiveConfig):
        if model.initial == "random":
            reasons.append("model.initial=random draws per process")
        if model.noise != "none":
            reasons.append("model.noise draws per process")
    elif model.dropout:
        reasons.append("model.dropout draws per process")
    near = [f"loss.weights.{name}" for name in ("rep_x", "rep_z", "rep_z_l") if getattr(weights, name)]
    if near:
        reasons.append(f"{', '.join(near)}: a row is repelled by the rows of its own process alone")
    if weights.jsrr or ((weights.rh_stable_z or weights.rh_unstable_x) and config.loss.trace.method == "hutchinson"):
        reasons.append("the random directions of Jacobian terms are drawn per process")
    return reasons


EXACT_AT_MOST = 4096  # products in each exact trace


def _refuse_what_the_model_cannot(config: Config, model: Reasoner) -> None:
    """Raises ConfigError for a combination that only the built model can tell."""
    if isinstance(config.model, RecursiveConfig) and config.model.integrator == "adaptive":
        raise ConfigError("model.integrator=adaptive is for evaluation: type euler, heun or rk4 to train")
    if config.balance.kind == "alg-grad-norm" and not model.balance_weights():
        raise ConfigError(
            f"balance.kind=alg-grad-norm: a {config.model.kind} model names no weights to measure gradients at; "
            "type balance.kind=fixed"
        )
    traced = [name for name in config.loss.present if name.startswith("rh_")]
    prefix = config.model.puzzle_emb_len if isinstance(config.model, RecursiveConfig) else 0
    size = config.model.hidden_size * (prefix + model.shape.seq_len)
    if traced and config.loss.trace.method == "exact" and size > EXACT_AT_MOST:
        raise ConfigError(
            f"loss.trace.method=exact takes S·D = {size} products a step, {EXACT_AT_MOST} at most are allowed; "
            "type loss.trace.method=hutchinson"
        )
