"""What a machine can hold, against what a run asks for: refused before anything is made."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from reason.config.schema import Config
from reason.errors import ConfigError
from reason.models import LoopedConfig, RecursiveConfig, build_model
from reason.models.base import Shape
from reason.training.memory import Memory, estimate, readable_size
from reason.training.precision import activation_dtype

SAVED = 64  # tensors of a layer's width that autograd keeps for one call of it, at most: more than any layer here
INFO = "/proc/meminfo"
CONTAINERS = [  # (limit, used) of cgroup v2 and v1
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
]


def available_memory(device: torch.device) -> int | None:
    """Bytes that may still be taken on a device; None where the system does not tell.

    On a CPU: what the kernel calls available, or what is left of the container's limit.
    """
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    if device.type == "mps":
        return torch.mps.recommended_max_memory()
    left = [_number(INFO, "MemAvailable")]
    for limit, used in CONTAINERS:
        most, taken = _number(limit), _number(used)
        left.append(None if most is None or taken is None else most - taken)
    known = [size for size in left if size is not None]
    if known:
        return max(0, min(known))
    pages = os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else -1
    return pages * os.sysconf("SC_PAGE_SIZE") if pages > 0 else None


def _number(file: str, line: str = "") -> int | None:
    """The bytes that a file of the kernel states, on the line that begins so."""
    try:
        text = next((text for text in Path(file).read_text().splitlines() if text.startswith(line)), "")
    except OSError:
        return None
    words = text.removeprefix(f"{line}:").split()
    return int(words[0]) * (1024 if words[1:] == ["kB"] else 1) if words and words[0].isdecimal() else None


def refuse_large_model(model: RecursiveConfig | LoopedConfig, shape: Shape, device: torch.device) -> int:
    """The bytes of a model's weights, counted without memory.

    Raises:
        ConfigError: they are more than is available.
    """
    with torch.device("meta"):
        built = build_model(model, shape)
    size = sum(tensor.numel() * tensor.element_size() for tensor in (*built.parameters(), *built.buffers()))
    available = available_memory(device)
    if available is not None and size > available:
        raise ConfigError(
            f"the weights of this model for {shape} take {readable_size(size)}, {readable_size(available)} are available "
            f"on {device}; type a smaller model.hidden_size or model.num_layers"
        )
    return size


def refuse_large_training(config: Config, shape: Shape, device: torch.device, processes: int = 1) -> None:
    """Refuse what would not fit: by what must be held at least, and on a CPU, which gives no error, by an estimate.

    Raises:
        ConfigError: with both numbers.
    """
    weights = refuse_large_model(config.model, shape, device)
    available = available_memory(device)
    if available is None:
        return
    rows = config.training.batch_size // processes
    share = config.model_copy(update={"training": config.training.model_copy(update={"batch_size": rows})})
    _refuse(_at_least(share, shape, weights), available, config, device, "at least ")
    if device.type == "cpu" and at_most(share, shape, weights) > available / 2:
        dtype = activation_dtype(config.training.precision, device)
        _refuse(estimate_memory(share, shape, dtype, device.type).total, available, config, device, "")


def _at_least(config: Config, shape: Shape, weights: int) -> int:
    """Bytes of weights, moments and average, and of a carry of one state."""
    rows, kept = config.training.batch_size, 3 if config.ema.decay is None else 4
    return kept * weights + 32 * rows * shape.seq_len + 2 * rows * shape.seq_len * config.model.hidden_size


def at_most(config: Config, shape: Shape, weights: int) -> int:
    """More bytes than training can come to hold, without the seconds that an estimate takes."""
    slots = shape.seq_len + getattr(config.model, "puzzle_emb_len", 0)
    numbers = (
        config.training.batch_size * slots * max(config.model.hidden_size, shape.vocab_size)
    )  # of a state, or logits
    return _at_least(config, shape, weights) + 4 * SAVED * numbers * _calls(config)


def estimate_memory(config: Config, shape: Shape, dtype: torch.dtype, device: str) -> Memory:
    """What training this config on puzzles of this shape would hold, before anything is made."""
    return estimate(config, lambda dtype: build_model(config.model, shape, dtype), shape, dtype, device)


def _calls(config: Config) -> int:
    """How often a backward pass goes through a layer, at most."""
    model, loops = config.model, config.rollout.loops
    times = loops.count if loops.distribution == "fixed" else loops.max
    if isinstance(model, LoopedConfig):
        return times * model.num_layers + model.prelude + model.coda
    return times * model.h_cycles * (model.l_cycles + 1) * model.substeps * model.repeats * model.num_layers


def _refuse(size: int, available: int, config: Config, device: torch.device, how: str) -> None:
    if size > available:
        rows = config.training.batch_size
        fewer = max(1, int(rows * available / size / 2))
        raise ConfigError(
            f"training.batch_size={rows}: training would hold {how}{readable_size(size)}, {readable_size(available)} "
            f"are available on {device}; type training.batch_size={fewer}, or a smaller model"
        )
