"""Checkpoints: whole or absent, read without pickle.

RUN/checkpoints/step-000500/weights.safetensors   parameters and buffers by name
                            ema.safetensors       averaged parameters, where the run keeps an EMA
                            state.safetensors     every other tensor: moments, carry, random states
                            state.json            the tree those tensors hang in, and every number
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from reason.errors import ConfigError

TENSOR = "tensor:"


def pack(tree: Any, tensors: dict[str, Tensor], path: str = "") -> Any:
    """The tree with each tensor replaced by its key in `tensors`, ready for JSON. Keys become strings."""
    if isinstance(tree, Tensor):
        tensors[path] = tree.detach().cpu().clone().contiguous()
        return TENSOR + path
    if isinstance(tree, Mapping):
        return {str(key): pack(value, tensors, f"{path}/{key}") for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [pack(value, tensors, f"{path}/{index}") for index, value in enumerate(tree)]
    return tree


def unpack(tree: Any, tensors: Mapping[str, Tensor]) -> Any:
    """What `pack` took apart; tuples come back as lists."""
    if isinstance(tree, str) and tree.startswith(TENSOR):
        return tensors[tree.removeprefix(TENSOR)]
    if isinstance(tree, dict):
        return {key: unpack(value, tensors) for key, value in tree.items()}
    if isinstance(tree, list):
        return [unpack(value, tensors) for value in tree]
    return tree


def checkpoints(run: Path) -> list[Path]:
    """The run's checkpoint folders, oldest first."""
    found = [path for path in run.glob("checkpoints/step-*") if path.name.removeprefix("step-").isdigit()]
    return sorted(found, key=step_of)


def step_of(folder: Path) -> int:
    """The optimizer step that a checkpoint folder is named after."""
    return int(folder.name.removeprefix("step-"))


def save_checkpoint(
    run: Path, step: int, weights: dict[str, Tensor], ema: dict[str, Tensor] | None, state: Any, keep: int
) -> Path:
    """Write checkpoints/step-NNNNNN in one rename, then drop all but the `keep` newest."""
    folder = run / "checkpoints" / f"step-{step:06d}"
    scratch = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    try:
        tensors: dict[str, Tensor] = {}
        skeleton = pack(state, tensors)
        save_file(
            {name: value.detach().cpu().contiguous() for name, value in weights.items()},
            scratch / "weights.safetensors",
        )
        if ema is not None:
            save_file({name: value.cpu() for name, value in ema.items()}, scratch / "ema.safetensors")
        save_file(tensors, scratch / "state.safetensors")
        (scratch / "state.json").write_text(json.dumps(skeleton))
        for path in scratch.iterdir():
            with path.open("rb") as file:
                os.fsync(file.fileno())
        shutil.rmtree(folder, ignore_errors=True)
        scratch.rename(folder)
    except BaseException as error:
        shutil.rmtree(scratch, ignore_errors=True)
        if isinstance(error, SafetensorError):  # how safetensors reports a full disk
            raise OSError(errno.EIO, f"the checkpoint could not be written ({error})", str(folder)) from error
        raise
    for old in checkpoints(run)[:-keep]:
        shutil.rmtree(old, ignore_errors=True)
    return folder


def load_state(folder: Path) -> Any:
    """The state tree of a checkpoint."""
    return unpack(json.loads((folder / "state.json").read_text()), load_file(folder / "state.safetensors"))


def refuse_weights_alone(folder: Path) -> None:
    """Raises ConfigError for a checkpoint without a training to go on with, as an imported one is."""
    if "optimizer" not in json.loads((folder / "state.json").read_text()):
        raise ConfigError(f"{folder} holds weights but no training to go on with (imported); it can be evaluated")


def load_weights(folder: Path, which: str) -> dict[str, Tensor]:
    """`which` is "raw" or "ema"; the averages lie over the raw weights, so buffers are always there."""
    weights = load_file(folder / "weights.safetensors")
    return weights | load_file(folder / "ema.safetensors") if which == "ema" else weights


def readable(run: Path) -> Iterator[Path]:
    """Checkpoints that can be read whole, newest first; a torn one is passed over with a warning."""
    for folder in reversed(checkpoints(run)):
        try:
            json.loads((folder / "state.json").read_text())
            for name in {"weights.safetensors", "state.safetensors", *(p.name for p in folder.glob("*.safetensors"))}:
                with safe_open(folder / name, "pt"):  # reads the header and holds it against the file's length
                    pass
        except (OSError, SafetensorError, json.JSONDecodeError) as error:
            warnings.warn(f"{folder} is torn ({error}); going back to the one before it", stacklevel=2)
            continue
        yield folder


def random_state(device: torch.device) -> dict[str, Tensor]:
    """The states of the default generators, the CPU's and the device's: exploration, random initial states, noise."""
    state = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        state["cuda"] = torch.cuda.get_rng_state(device)
    elif device.type == "mps":
        state["mps"] = torch.mps.get_rng_state()
    return state


def restore_random_state(state: dict[str, Tensor], device: torch.device) -> None:
    """Put the default generators where `random_state` found them."""
    torch.set_rng_state(state["cpu"])
    if device.type == "cuda":
        torch.cuda.set_rng_state(state["cuda"], device)
    elif device.type == "mps":
        torch.mps.set_rng_state(state["mps"])
