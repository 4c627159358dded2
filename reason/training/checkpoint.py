"""Checkpoints: whole or absent, read without pickle.

RUN/checkpoints/step-000500/weights.safetensors   parameters and buffers by name
                            ema.safetensors       averaged parameters, where the run keeps an EMA
                            state.safetensors     every other tensor: moments, carry, random states
                            state.json            the tree those tensors hang in, and every number
                            manifest.json         SHA-256 of each of these
RUN/checkpoints/best.json                         the step that read best on the monitor's split, and what it read:
                                                  for people; the newest checkpoint's state decides
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
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
from reason.files import read_json, written_beside
from reason.training.distributed import World
from reason.training.integrity import FILES, fault, seal

TENSOR = "tensor:"
_FOLDER = re.compile(r"step-([0-9]{6}|[1-9][0-9]{6,17})")  # one name for each step


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
    found = [path for path in run.glob("checkpoints/step-*") if _FOLDER.fullmatch(path.name) and path.is_dir()]
    return sorted(found, key=step_of)


def refuse_what_is_in_the_way(run: Path) -> None:
    """Raises ConfigError where something that is no folder has the name of a checkpoint: none could be saved there."""
    for path in sorted(run.glob("checkpoints/step-*")):
        if _FOLDER.fullmatch(path.name) and (path.is_symlink() or not path.is_dir()):
            raise ConfigError(f"{path} is no folder, and a checkpoint may have to be saved there; move it away")


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
        (scratch / "state.json").write_text(json.dumps(skeleton), encoding="utf-8")
        for path in scratch.glob("*.safetensors"):  # written readable by their owner alone
            path.chmod((scratch / "state.json").stat().st_mode)
        seal(scratch)
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
        record_best(run, best)
    there = checkpoints(run)
    kept = [path for path in there if step_of(path) <= step][-keep:]
    for old in there:
        if old not in kept and not (best is not None and step_of(old) == best["step"]):
            shutil.rmtree(old, ignore_errors=True)
    return folder


def _to_disk(path: Path) -> None:
    """Wait until a file's bytes, or a folder's names, are on the disk."""
    folder = path.is_dir()
    if folder and os.name == "nt":  # folders cannot be opened there, and files only be synced where they can be written
        return
    descriptor = os.open(path, os.O_RDONLY if folder else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def record_best(run: Path, best: dict[str, Any]) -> None:
    """Write best.json, which a kill may have left behind the newest checkpoint."""
    with written_beside(run / "checkpoints" / "best.json") as part:
        part.write_text(json.dumps(best) + "\n", encoding="utf-8")


def best_checkpoint(run: Path) -> Path | None:
    """The checkpoint that read best on the monitor's split, as the newest one's state has it; None: there is none."""
    newest = next(readable(run), None)
    best = read_json(newest / "state.json").get("best") if newest is not None else None
    step = best.get("step") if isinstance(best, dict) else None
    folder = next((path for path in checkpoints(run) if step_of(path) == step), None)
    return folder if folder is not None and torn(folder) is None else None


def load_state(folder: Path) -> Any:
    """The state tree of a checkpoint."""
    return unpack(read_json(folder / "state.json"), load_file(folder / "state.safetensors"))


def saved_config(folder: Path) -> dict[str, Any]:
    """The config that a checkpoint was made with; empty for an imported one."""
    config = read_json(folder / "state.json").get("config", {})
    return config if isinstance(config, dict) else {}


def refuse_weights_alone(folder: Path) -> None:
    """Raises ConfigError for a checkpoint without a training to go on with, as an imported one is."""
    if "optimizer" not in read_json(folder / "state.json"):
        raise ConfigError(f"{folder} holds weights but no training to go on with (imported); it can be evaluated")


def load_weights(folder: Path, which: str) -> dict[str, Tensor]:
    """`which` is "raw" or "ema"; the averages lie over the raw weights, so buffers are always there.

    Raises:
        ConfigError: one of them is no finite number.
    """
    weights = load_file(folder / "weights.safetensors")
    averages = folder / "ema.safetensors"  # not in an exported model, whose weights are the averages
    weights |= load_file(averages) if which == "ema" and averages.exists() else {}
    broken = first_infinite(weights)
    if broken is not None:
        raise ConfigError(f"{folder}: {which} weight {broken} holds a number that is infinite or NaN; name another run")
    return weights


def first_infinite(tensors: Mapping[str, Tensor]) -> str | None:
    """The name of the first tensor that holds an infinity or a NaN (this waits for the device once)."""
    floating = {name: tensor for name, tensor in tensors.items() if tensor.is_floating_point() and tensor.numel()}
    if not floating:
        return None
    finite = torch.stack([tensor.isfinite().all() for tensor in floating.values()]).tolist()
    return next((name for name, good in zip(floating, finite, strict=True) if not good), None)


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
    """Checkpoints that are whole and unchanged, newest first; another is passed over with a warning."""
    for folder in reversed(checkpoints(run)):
        reason = torn(folder)
        if reason is None:
            yield folder
        else:
            warnings.warn(f"{folder} is torn ({reason}); going back to the one before it", stacklevel=2)


def torn(folder: Path) -> str | None:
    """What keeps a checkpoint from being read whole."""
    reason = fault(folder)
    if reason is not None:
        return reason
    try:
        state = read_json(folder / "state.json")
        if not isinstance(state, dict) or not state:
            return "state.json holds no state"
        if state.get("step", step_of(folder)) != step_of(folder):
            return f"its state is of step {state['step']}"
        if state.get("averaged") and not (folder / "ema.safetensors").exists():
            return "ema.safetensors is missing"
        for path in (folder / name for name in FILES if name.endswith(".safetensors") and (folder / name).exists()):
            with safe_open(path, "pt"):  # reads the header and holds it against the file's length
                pass
    except (ConfigError, OSError, SafetensorError) as error:
        return str(error)
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


@contextlib.contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Within the block the default generators draw from the seed; after it, they go on where they were."""
    before = random_state(device)
    torch.manual_seed(seed)
    try:
        yield
    finally:
        restore_random_state(before, device)


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
