"""Checkpoints: whole or absent, loaded without pickle.

RUN/checkpoints/step-000500/weights.safetensors   parameters and buffers by name
                            ema.safetensors       averaged parameters, if the run keeps an EMA
                            state.safetensors     every other tensor: moments, carry, random states
                            state.json            the nested structure of those tensors, and all numbers
                            manifest.json         SHA-256 of each of these, written last
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from reason.config.describe import has_mark
from reason.config.overrides import flattened, renewed
from reason.errors import ConfigError
from reason.files import published, read_json
from reason.settings.base import Mark

MANIFEST = "manifest.json"
NEEDED = ("weights.safetensors", "state.safetensors", "state.json")
FILES = (*NEEDED, "ema.safetensors")
TENSOR = "tensor:"
_FOLDER = re.compile(r"step-([0-9]{6}|[1-9][0-9]{6,17})")  # one name for each step


def saved_state(folder: Path) -> dict[str, Any]:
    """Return state.json, its tensors by their keys; no `step`, `config` and `optimizer` if no training is saved."""
    state = read_json(folder / "state.json")
    if not isinstance(state, dict) or not state:
        raise ConfigError("state.json holds no state")
    return state


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def seal(folder: Path) -> None:
    """Write the manifest of a checkpoint folder."""
    sums = {name: sha256(folder / name) for name in FILES if (folder / name).exists()}
    (folder / MANIFEST).write_text(json.dumps(sums, indent=1) + "\n", encoding="utf-8")


def pack(tree: Any, tensors: dict[str, Tensor], path: str = "") -> Any:
    """Replace each tensor of a tree by its key in `tensors`, ready for JSON. Keys become strings."""
    if isinstance(tree, Tensor):
        tensors[path] = tree.detach().cpu().clone().contiguous()
        return TENSOR + path
    if isinstance(tree, Mapping):
        return {str(key): pack(value, tensors, f"{path}/{key}") for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [pack(value, tensors, f"{path}/{index}") for index, value in enumerate(tree)]
    return tree


def unpack(tree: Any, tensors: Mapping[str, Tensor]) -> Any:
    """Return the inverse of `pack`, except that tuples come back as lists."""
    if isinstance(tree, str) and tree.startswith(TENSOR):
        return tensors[tree.removeprefix(TENSOR)]
    if isinstance(tree, dict):
        return {key: unpack(value, tensors) for key, value in tree.items()}
    return [unpack(value, tensors) for value in tree] if isinstance(tree, list) else tree


def checkpoints(run: Path) -> list[Path]:
    """Return the run's checkpoint folders, oldest first."""
    folders = [path for path in run.glob("checkpoints/step-*") if _FOLDER.fullmatch(path.name) and path.is_dir()]
    return sorted(folders, key=step_of)


def step_of(folder: Path) -> int:
    """Return the optimizer step that a checkpoint folder is named after."""
    return int(folder.name.removeprefix("step-"))


def save_checkpoint(
    run: Path,
    step: int,
    weights: dict[str, Tensor],
    ema: dict[str, Tensor] | None,
    state: Any,
    keep: int = 1,
    best: int | None = None,
) -> Path:
    """Write checkpoints/step-NNNNNN in one rename, then drop all but the `keep` newest and the best.

    `best` is the best step so far, that of this checkpoint or of an earlier one. Steps beyond this one are dropped too:
    they are damaged, or training would not be at this step again.
    """
    folder = run / "checkpoints" / f"step-{step:06d}"
    for leftover in folder.parent.glob(".step-*.partial"):  # left by a process that was killed
        shutil.rmtree(leftover, ignore_errors=True)
    folder.parent.mkdir(exist_ok=True)  # fails if the run's folder was removed
    tensors: dict[str, Tensor] = {}
    skeleton = pack(state, tensors)
    with published(folder, replace=True) as scratch:
        scratch.mkdir()
        for name, named in {"weights": weights, "ema": ema, "state": tensors}.items():
            if named is not None:
                _save_tensors(named, scratch / f"{name}.safetensors")
        (scratch / "state.json").write_text(json.dumps(skeleton), encoding="utf-8")
        for path in scratch.glob("*.safetensors"):  # safetensors makes them readable only by their owner
            path.chmod((scratch / "state.json").stat().st_mode)
        seal(scratch)
        for path in (*scratch.iterdir(), scratch):
            to_disk(path)
    to_disk(folder.parent)
    folders = checkpoints(run)
    newest = [path for path in folders if step_of(path) <= step][-keep:]
    for old in folders:
        if old not in newest and step_of(old) != best:
            hidden = old.rename(old.with_name(f".{old.name}.partial"))  # in one rename: a reader never sees half of it
            shutil.rmtree(hidden, ignore_errors=True)
    return folder


def _save_tensors(tensors: Mapping[str, Tensor], file: Path) -> None:
    try:
        save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, file)
    except SafetensorError as error:  # safetensors reports a full disk with it
        raise OSError(errno.EIO, f"the checkpoint could not be written ({error})", str(file)) from error


def to_disk(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    if path.is_dir() and os.name == "nt":  # folders cannot be opened there
        return
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def best_checkpoint(run: Path) -> Path | None:
    """Return the checkpoint of the highest validation accuracy, which the newest checkpoint names, or None."""
    newest = next(readable(run), None)
    best = None if newest is None else saved_state(newest).get("best")
    folder = next((path for path in checkpoints(run) if best is not None and step_of(path) == best["step"]), None)
    return folder if folder is not None and torn(folder) is None else None


def load_weights(folder: Path, which: str) -> dict[str, Tensor]:
    """Load weights, `which` "raw" or "ema"; averages override raw weights, so buffers are always included."""
    file = folder / "ema.safetensors"  # not in an exported model, whose weights are the averages
    averages = load_file(file) if which == "ema" and file.exists() else {}
    weights = load_file(folder / "weights.safetensors") | averages  # last: it fails if a trainer removed the checkpoint
    broken = first_infinite(weights)
    if broken is not None:
        raise ConfigError(f"{folder}: {which} weight {broken} holds a number that is infinite or NaN; name another run")
    return weights


def first_infinite(tensors: Mapping[str, Tensor]) -> str | None:
    """Return the name of the first tensor that holds an infinity or a NaN (this waits for the device once)."""
    floating = {name: tensor for name, tensor in tensors.items() if tensor.is_floating_point() and tensor.numel()}
    if not floating:
        return None
    device = max(floating.values(), key=lambda tensor: tensor.is_cuda).device  # AdamW counts its steps on the CPU
    finite = torch.stack([tensor.isfinite().all().to(device) for tensor in floating.values()]).tolist()
    return next((name for name, good in zip(floating, finite, strict=True) if not good), None)


def load_into(model: nn.Module, folder: Path, which: str) -> None:
    """Load the weights of a checkpoint into a model."""
    load_fitting(model, load_weights(folder, which), f"{folder}, read by config.json", "put config.json back")


def load_fitting(model: nn.Module, weights: Mapping[str, Tensor], source: str, fix: str) -> None:
    """Load weights into a model. Raises ConfigError if names or shapes are not the model's."""
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        reason = str(error).splitlines()[-1].strip()
        raise ConfigError(f"{source}: the weights do not fit the model ({reason}); {fix}") from None


def refuse_other_config(saved: dict[str, Any], present: dict[str, Any], folder: Path) -> None:
    """Raise ConfigError if a setting that must not change differs between a checkpoint's config and the present one.

    A setting that only one of the two has, because of another version, does not count.
    """
    now = flattened(renewed(present))
    for key, was in flattened(renewed(saved)).items():
        if key in now and now[key] != was and not has_mark(key, Mark.RESUMABLE):
            raise ConfigError(
                f"{folder} was made with {key}={was}, config.json has {now[key]}: put {was} back, or start another run"
            )


def readable(run: Path) -> Iterator[Path]:
    """Yield the whole and unchanged checkpoints, newest first; skip others with a warning."""
    for folder in reversed(checkpoints(run)):
        reason = torn(folder)
        if reason is None:
            yield folder
        else:
            warnings.warn(f"{folder} is torn ({reason}); going back to the one before it", stacklevel=2)


def torn(folder: Path) -> str | None:
    """Return the damage of a checkpoint, or None if it is whole and unchanged."""
    try:
        sums = read_json(folder / MANIFEST)  # {file: its SHA-256}
        if not isinstance(sums, dict) or not set(NEEDED) <= sums.keys() <= set(FILES):
            return f"{MANIFEST} does not list its files"
        for name in FILES:
            if name in sums and sha256(folder / name) != sums[name]:
                return f"{name} has changed since it was written"
            if name not in sums and (folder / name).exists():
                return f"{name} is not of this checkpoint"
        if (step := saved_state(folder).get("step")) not in (None, step_of(folder)):
            return f"its state is of step {step}"
    except FileNotFoundError as error:
        return f"{Path(str(error.filename)).name} is missing"
    except (ConfigError, OSError) as error:
        return str(error)
    return None
