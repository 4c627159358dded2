"""Run directories: config.json, metrics.jsonl, checkpoints/, evaluation/."""

from __future__ import annotations

import json
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from reason.config import Config, read_config
from reason.errors import ConfigError
from reason.models import build_model
from reason.models.base import Reasoner, Shape
from reason.training.checkpoint import load_weights, readable
from reason.training.precision import activation_dtype
from reason.version import __version__

ROOT = Path("runs")


def next_run(name: str) -> Path:
    """runs/NAME-N with the smallest N ≥ 1 above every one that is there."""
    taken = [path.name.removeprefix(f"{name}-") for path in ROOT.glob(f"{name}-*")]
    return ROOT / f"{name}-{max((int(n) for n in taken if n.isdigit()), default=0) + 1}"


def newest_run() -> Path:
    """The run under runs/ whose checkpoint was written last.

    Raises:
        ConfigError: there is none.
    """
    found = [(path.stat().st_mtime, path.parents[2]) for path in ROOT.glob("*/checkpoints/step-*/state.json")]
    if not found:
        raise ConfigError("no run named and none under runs/; train one: python train.py sudoku-6x6")
    return max(found)[1]


def create_run(run: Path, config: Config, shape: Shape, task: dict[str, Any], command: list[str]) -> None:
    """Make the folder and its config.json: all that evaluation and resume need to know, written in one rename.

    Raises:
        ConfigError: the folder already holds a run.
    """
    refuse_existing(run)
    run.mkdir(parents=True, exist_ok=True)
    record = {
        "config": config.model_dump(mode="json"),
        "shape": shape.model_dump(),
        "task": task,
        "command": command,
        "version": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
    scratch = run / ".config.json.partial"
    scratch.write_text(json.dumps(record, indent=2) + "\n")
    scratch.rename(run / "config.json")


def refuse_existing(run: Path) -> None:
    """Raises ConfigError where `run` already holds a run."""
    if (run / "config.json").exists():
        raise ConfigError(f"{run} already holds a run: type --resume to go on with it, or another run=DIR")
    if run.exists() and not run.is_dir():
        raise ConfigError(f"{run} is a file; name a folder with run=DIR")


@dataclass(frozen=True)
class TrainedRun:
    """A run, read for evaluation."""

    path: Path
    config: Config
    shape: Shape
    step: int  # optimizer steps of the checkpoint
    weights: str  # "ema" or "raw"
    model: Reasoner


def load_run(run: Path, device: torch.device, config: Config, weights: str = "auto") -> TrainedRun:
    """The newest whole checkpoint of a run as a model on `device`; `config` is the run's, perhaps overridden.

    Raises:
        ConfigError: there is no checkpoint, or it has no EMA and one was asked for.
    """
    folder = next(readable(run), None)
    if folder is None:
        raise ConfigError(f"{run} holds no checkpoint yet; train it further with --resume")
    has_ema = (folder / "ema.safetensors").exists()
    if weights == "ema" and not has_ema:
        raise ConfigError(f"evaluation.weights=ema: {run} keeps no EMA; type evaluation.weights=raw")
    which = "raw" if weights == "raw" or not has_ema else "ema"
    shape = read_shape(run)
    model = build_model(config.model, shape, activation_dtype(config.training.precision, device))
    model.load_state_dict(load_weights(folder, which))
    return TrainedRun(run, config, shape, int(folder.name.removeprefix("step-")), which, model.to(device).eval())


def read_shape(run: Path) -> Shape:
    """The puzzle shape that a run was built for; reads what `create_run` wrote."""
    read_config(run / "config.json")  # says what is wrong with a folder that is no run
    return Shape.model_validate(json.loads((run / "config.json").read_text())["shape"])
