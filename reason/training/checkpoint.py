"""Checkpoints: whole or absent, read without pickle.

RUN/checkpoints/step-000500/weights.safetensors   parameters and buffers by name
                            ema.safetensors       averaged parameters, where the run keeps an EMA
                            state.safetensors     every other tensor: moments, carry, random states
                            state.json            the tree those tensors hang in, and every number
RUN/checkpoints/best.json                         the step that read best on the monitor's split, and what it read
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
from torch import Tensor, nn

from reason.errors import ConfigError
from reason.training.distributed import World

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
    run: Path,
    step: int,
    weights: dict[str, Tensor],
    ema: dict[str, Tensor] | None,
    state: Any,
    keep: int,
    best: dict[str, Any] | None = None,
) -> Path:
    """Write checkpoints/step-NNNNNN in one rename, then drop all but the `keep` newest and the best.

    `best` is the record of the best step so far, that of this checkpoint or of an earlier one. Steps beyond this one
    are dropped too: they are torn, or training would not be at this step again.
    """
    folder = run / "checkpoints" / f"step-{step:06d}"
    for left in folder.parent.glob(".step-*.partial"):  # by a process that was killed
        shutil.rmtree(left, ignore_errors=True)
    scratch = folder.with_name(f".{folder.name}.partial")
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
            _to_disk(path)
        shutil.rmtree(folder, ignore_errors=True)
        scratch.rename(folder)
        _to_disk(folder.parent)
    except BaseException as error:
        shutil.rmtree(scratch, ignore_errors=True)
        if isinstance(error, SafetensorError):  # how safetensors reports a full disk
            raise OSError(errno.EIO, f"the checkpoint could not be written ({error})", str(folder)) from error
        raise
    if best is not None:
        _record_best(run, best)
    there = checkpoints(run)
    kept = [path for path in there if step_of(path) <= step][-keep:]
    for old in there:
        if old not in kept and not (best is not None and step_of(old) == best["step"]):
            shutil.rmtree(old, ignore_errors=True)
    return folder


def _to_disk(path: Path) -> None:
    """Wait until a file's bytes, or a folder's names, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _record_best(run: Path, best: dict[str, Any]) -> None:
    scratch = run / "checkpoints" / ".best.json.partial"
    scratch.write_text(json.dumps(best) + "\n")
    scratch.replace(scratch.with_name("best.json"))


def best_checkpoint(run: Path) -> Path | None:
    """The checkpoint that read best on the monitor's split; None where none was chosen, or it cannot be read."""
    try:
        step = json.loads((run / "checkpoints" / "best.json").read_text())["step"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    folder = run / "checkpoints" / f"step-{step:06d}"
    return folder if folder.is_dir() and _torn(folder) is None else None


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


def load_into(model: nn.Module, folder: Path, which: str) -> None:
    """`load_weights` into a model.

    Raises:
        ConfigError: names or shapes are not the model's.
    """
    try:
        model.load_state_dict(load_weights(folder, which))
    except RuntimeError as error:  # names or shapes
        reason = str(error).splitlines()[-1].strip()
        raise ConfigError(f"{folder} does not fit the model of config.json ({reason}); put config.json back") from None


def readable(run: Path) -> Iterator[Path]:
    """Checkpoints that can be read whole, newest first; a torn one is passed over with a warning."""
    for folder in reversed(checkpoints(run)):
        error = _torn(folder)
        if error is None:
            yield folder
        else:
            warnings.warn(f"{folder} is torn ({error}); going back to the one before it", stacklevel=2)


def _torn(folder: Path) -> Exception | None:
    """What keeps a checkpoint from being read whole."""
    try:
        state = json.loads((folder / "state.json").read_text())
        if not isinstance(state, dict) or not state:
            return ValueError("state.json holds no state")
        if state.get("averaged") and not (folder / "ema.safetensors").exists():
            return ValueError("ema.safetensors is missing")
        for name in {"weights.safetensors", "state.safetensors", *(p.name for p in folder.glob("*.safetensors"))}:
            with safe_open(folder / name, "pt"):  # reads the header and holds it against the file's length
                pass
    except (OSError, SafetensorError, json.JSONDecodeError, UnicodeDecodeError) as error:
        return error
    return None


def random_state(device: torch.device) -> dict[str, Tensor]:
    """The states of the default generators, the CPU's and the device's: exploration, random initial states, noise."""
    state = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        state["cuda"] = torch.cuda.get_rng_state(device)
    elif device.type == "mps":
        state["mps"] = torch.mps.get_rng_state()
    return state


def restore_random_state(state: Mapping[str, Tensor], device: torch.device) -> None:
    """Put the default generators where `random_state` found them."""
    torch.set_rng_state(state["cpu"])
    if device.type == "cuda":
        torch.cuda.set_rng_state(state["cuda"], device)
    elif device.type == "mps":
        torch.mps.set_rng_state(state["mps"])


def random_states(device: torch.device, world: World) -> list[dict[str, Tensor]]:
    """`random_state` of every process."""
    here = random_state(device)
    every = {name: world.gather(state[None]) for name, state in here.items()}  # (processes, bytes)
    return [{name: states[rank] for name, states in every.items()} for rank in range(world.size)]


def restore_random_states(states: Any, device: torch.device, world: World) -> None:
    """Each process goes on with its own; one that was not there when they were saved keeps the stream it began with."""
    every = states if isinstance(states, list) else [states]
    if len(every) != world.size:
        warnings.warn(
            f"saved by {len(every)} processes, going on with {world.size}: exploration and noise are drawn per process "
            "and differ from an unbroken run",
            stacklevel=2,
        )
    if world.rank < len(every):
        restore_random_state(every[world.rank], device)
