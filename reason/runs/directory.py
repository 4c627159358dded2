"""Run directories: config.json, metrics.jsonl, checkpoints/, evaluation/."""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from filelock import FileLock, Timeout
from pydantic import ValidationError

from reason.config.overrides import read_config
from reason.config.schema import Config
from reason.errors import ConfigError, first_fault
from reason.files import published, read_json
from reason.models import build_model
from reason.models.base import Reasoner, Shape
from reason.models.layout import accepted, unreadable
from reason.plugins import IMPORTED, extension
from reason.pretrained import find_run
from reason.runs.folders import plain_name
from reason.training.accelerate import accelerate
from reason.training.checkpoint import (
    best_checkpoint,
    checkpoints,
    load_into,
    readable,
    refuse_other_config,
    saved_state,
    step_of,
    to_disk,
)
from reason.training.device import float32_by_onednn
from reason.training.log import read_metrics
from reason.training.precision import dtypes
from reason.version import __version__

ROOT = Path("runs")
PACKED = ".tar.gz"  # ends the name of an archive of a run


def is_archive(name: str | Path) -> bool:
    """Return whether the name is that of an archive of a run."""
    return str(name).endswith(PACKED)


def folder_of(run: str | Path, target: str | None = None) -> Path:
    """Return a run's folder; an archive is unpacked to `target`, by default to a folder of its name in runs/."""
    if not is_archive(run):
        return Path(run)
    folder: Path = extension("pack", "archive").unpacked(Path(run), Path(target) if target else None)
    return folder


def next_run(name: str) -> Path:
    """Return the folder runs/NAME-N with the smallest N ≥ 1 above every existing one."""
    numbered = re.compile(rf"{re.escape(plain_name(name, 'name'))}-([0-9]{{1,9}})")
    taken = [int(match[1]) for path in ROOT.glob("*") if (match := numbered.fullmatch(path.name))]
    return ROOT / f"{name}-{max(taken, default=0) + 1}"


def locked(run: Path) -> AbstractContextManager[Any]:
    """Take the lock of a run's folder, its file .lock; the end of the context releases it."""
    try:
        return FileLock(run / ".lock", timeout=0).acquire()
    except Timeout:
        raise ConfigError(f"{run} is being trained by another process; wait for it, or name another run=DIR") from None
    except OSError as error:
        raise ConfigError(
            f"{run} cannot be written to ({error.strerror}); copy it to a writable folder, and name that with run=DIR"
        ) from None


def run_and_config(name: Path | str) -> tuple[Path, Config]:
    """Return folder and config of a run, an archive (unpacked), or a model of the package or of the hub."""
    run = folder_of(extension("export", "hub").fetched(name) if str(name).startswith("hf:") else find_run(name))
    return run, read_config(run / "config.json")


def newest_run() -> Path:
    """Return the run in runs/ with the latest checkpoint, preferably past step 0. Raises ConfigError without one."""
    runs = (run for run in ROOT.glob("*") if (run / "config.json").exists())
    candidates = [(step_of(folder) > 0, folder.stat().st_mtime, run) for run in runs for folder in checkpoints(run)]
    if not candidates:
        raise ConfigError("no run named and none under runs/; train one: python train.py sudoku-6x6")
    return max(candidates)[-1]


def create_run(
    run: Path,
    config: Config,
    shape: Shape,
    task: dict[str, Any],
    command: list[str],
    fingerprints: dict[str, str] | None = None,
    imports: Sequence[str] | None = None,
) -> None:
    """Write config.json to a run's folder in one rename: everything that evaluation and resume need.

    `fingerprints` are those of the splits that training uses.
    """
    run.mkdir(parents=True, exist_ok=True)
    record = {
        "config": config.model_dump(mode="json"),
        "shape": shape.model_dump(),
        "task": task,
        "training_set": fingerprints or {},
        "imports": list(IMPORTED if imports is None else imports),
        "command": command,
        "version": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
    _write_record(run, record)


def change_config(run: Path, config: Config) -> None:
    """Replace the config in config.json, after a resume changed settings that may change."""
    _write_record(run, read_record(run) | {"config": config.model_dump(mode="json")})


def _write_record(run: Path, record: dict[str, Any]) -> None:
    with published(run / "config.json", replace=True) as part:
        part.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
        to_disk(part)  # without it no checkpoint can be read
    to_disk(run)


def refuse_existing(run: Path) -> None:
    """Raise ConfigError if `run` holds a run; one that failed before its first checkpoint may start again."""
    if checkpoints(run) or read_metrics(run):
        raise ConfigError(f"{run} already holds a run: type --resume to continue it, or another run=DIR")
    if run.exists() and not run.is_dir():
        raise ConfigError(f"{run} is a file; name a folder with run=DIR")


class TrainedRun(NamedTuple):
    """A run, loaded for evaluation."""

    step: int  # optimizer steps of the checkpoint
    weights: str  # "ema" or "raw"
    model: Reasoner


def load_run(run: Path, device: torch.device, config: Config, weights: str = "auto") -> TrainedRun:
    """Load a run's newest complete checkpoint, or its best, as a model on `device`, perhaps with an accelerator.

    `config` is the run's, perhaps overridden.
    """
    float32_by_onednn()
    shape = read_shape(run)
    computed = dtypes(config.training.precision, device)
    folder = chosen_checkpoint(run, config.evaluation.checkpoint)
    refuse_other_config(saved_state(folder).get("config", {}), read_record(run)["config"], folder)
    which = which_weights(folder, weights)
    model = build_model(config.model, shape, *computed)
    load_into(model, folder, which)
    accelerate(model, config.model, computed, device)
    return TrainedRun(step_of(folder), which, model.to(device).eval())


def accept_shape(model: Reasoner, shape: Shape, directory: Path | str, run: Path) -> None:
    """Let the model of a run accept the puzzle shape of another set, or raise ConfigError if it cannot."""
    if not accepted(model, shape):
        differs = f"{directory} has {shape.difference(model.shape)} ({run}): name a set of its shape with data=DIR"
        raise ConfigError(unreadable(model, shape) or differs)


def chosen_checkpoint(run: Path, which: str) -> Path:
    """Return the newest whole checkpoint of a run, or its best. Raises ConfigError if there is none."""
    if which == "best" and (best := best_checkpoint(run)) is None:
        why = "since no validation has chosen one, or its folder is gone"
        raise ConfigError(f"evaluation.checkpoint=best: {run} has none, {why}; type evaluation.checkpoint=newest")
    folder = best if which == "best" else next(readable(run), None)
    if folder is None:
        lost = checkpoints(run) or read_metrics(run)
        fix = f"put {run / 'checkpoints'} back, or name another run" if lost else "train it further with --resume"
        raise ConfigError(f"{run} holds no checkpoint that can be read; {fix}")
    return folder


def which_weights(folder: Path, asked: str) -> str:
    """Return "ema" or "raw", the weights of a checkpoint to load; "auto" selects the average if there is one."""
    exported = saved_state(folder).get("exported") == "ema"  # an exported checkpoint holds only its average
    has = {"ema": exported or (folder / "ema.safetensors").exists(), "raw": not exported}
    which = ("ema" if has["ema"] else "raw") if asked == "auto" else asked
    if not has.get(which):
        raise ConfigError(f"evaluation.weights={asked}: {folder} keeps none; type evaluation.weights=auto")
    return which


def read_shape(run: Path) -> Shape:
    """Return the puzzle shape that a run was built for. Raises ConfigError if config.json holds none."""
    try:
        return Shape.model_validate(read_record(run)["shape"])
    except ValidationError as error:
        where, what, _ = first_fault(error)
        raise ConfigError(f"{run / 'config.json'}: shape.{where}: {what}; put the file back") from None


def read_record(run: Path) -> dict[str, Any]:
    """Return the contents of config.json from `create_run`. Raises ConfigError if the folder holds no run."""
    read_config(run / "config.json")  # raises the error if the folder is not a run
    record = read_json(run / "config.json")
    if not {"shape", "task", "training_set"} <= record.keys() or not isinstance(record["task"], dict):
        raise ConfigError(f"{run / 'config.json'} lacks shape, task or training_set; put the file back")
    return record
