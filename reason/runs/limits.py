"""What a machine can hold, against what a run asks for: refused before it is made."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from reason.config.overrides import derive
from reason.config.schema import Config
from reason.data import PuzzleData
from reason.errors import ConfigError
from reason.models import ModelConfig, build_model
from reason.models.base import Reasoner, Shape, State
from reason.runs.memory import estimate_memory, products_of_trace, readable_size
from reason.training.precision import dtypes
from reason.training.sets import TrainingSets

DEEPEST = 20_000  # times its states that a training holds, about at most: below that no estimate is worth its seconds
EXACT_AT_MOST = 4096  # products in each exact trace
INFO = "/proc/meminfo"
CONTAINERS = [  # (limit, used, figures with the cache of files that can be dropped) of cgroup v2 and v1
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory.stat", "inactive_file"),
    (
        "/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        "/sys/fs/cgroup/memory/memory.stat", "total_inactive_file",
    ),
]  # fmt: skip


def available_memory(device: torch.device) -> int | None:
    """Bytes that may still be taken on a device; None where the system does not tell.

    On a CPU: what the kernel calls available, or what is left of the container's limit.
    """
    if device.type == "cuda":
        kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)  # by torch, to be used again
        return torch.cuda.mem_get_info(device)[0] + kept
    if device.type == "mps":
        return torch.mps.recommended_max_memory()
    left = [_number(INFO, "MemAvailable")]
    for limit, used, figures, cache in CONTAINERS:
        most, taken = _number(limit), _number(used)
        left.append(None if most is None or taken is None else most - taken + (_number(figures, f"{cache} ") or 0))
    known = [size for size in left if size is not None]
    if known:
        return max(0, min(known))
    pages = os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else -1
    return pages * os.sysconf("SC_PAGE_SIZE") if pages > 0 else None


def _number(file: str, line: str = "") -> int | None:
    """The bytes that a file of the kernel states, on the line that begins so."""
    try:
        text = next((text for text in Path(file).read_text(encoding="utf-8").splitlines() if text.startswith(line)), "")
    except OSError:
        return None
    words = text.removeprefix(line).removeprefix(":").split()
    return int(words[0]) * (1024 if words[1:] == ["kB"] else 1) if words and words[0].isdecimal() else None


def refuse_large_model(model: ModelConfig, shape: Shape, device: torch.device) -> None:
    """Count a model's weights without memory.

    Raises:
        ConfigError: they take more than is available.
    """
    with torch.device("meta"):
        built = build_model(model, shape)
    size, available = _size(built), available_memory(device)
    if available is not None and size > available:
        raise ConfigError(
            f"the weights of this model for {shape} take {readable_size(size)}, {readable_size(available)} are "
            f"available on {device}; type a smaller model.hidden_size or model.num_layers"
        )


def _size(model: Reasoner) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in (*model.parameters(), *model.buffers()))


def refuse_long_traces(config: Config, shapes: list[Shape]) -> None:
    """Raises ConfigError where an exact trace takes too many products."""
    products = max(products_of_trace(config, shape) for shape in shapes)
    if products > EXACT_AT_MOST:
        raise ConfigError(
            f"loss.trace.method=exact takes S·D = {products} products a step, {EXACT_AT_MOST} at most are allowed; "
            "type loss.trace.method=hutchinson"
        )


def refuse_large_training(config: Config, model: Reasoner, data: TrainingSets, processes: int = 1) -> None:
    """Refuse what would not fit: by what must be held at least, and on a CPU, which gives no error, by an estimate.

    Raises:
        ConfigError: with both numbers.
    """
    available = available_memory(data.device)
    if available is None:
        return
    rows = config.training.batch_size // processes
    per_row = [_row_state(model, part) for part in data.parts]
    states = rows * sum(z.numel() * z.element_size() for state in per_row for z in state)
    tokens = sum(32 * rows * part.shape.seq_len for part in data.parts)
    moments = 1 if config.optimizer.kind == "muon" else 2  # at least
    kept = moments + (config.ema.decay is not None)  # beside the weights, which are there already
    _refuse(kept * _size(model) + states + tokens, available, config, data.device, "at least ")
    if data.device.type == "cpu" and DEEPEST * states > available / 2:
        share = derive(config, {"training.batch_size": rows})
        computed = dtypes(config.training.precision, data.device)
        for part in data.parts:
            _refuse(estimate_memory(share, part.shape, computed, "cpu").total, available, config, data.device, "")


@torch.no_grad()
def _row_state(model: Reasoner, data: PuzzleData) -> State:
    """The initial state of a set's first puzzle; the random streams stay as they were."""
    devices = [data.device] if data.device.type == "cuda" else []
    with torch.random.fork_rng(devices):
        return model.initial_state(model.encode(data.take(torch.zeros(1, dtype=torch.int64, device=data.device))))


def _refuse(size: int, available: int, config: Config, device: torch.device, how: str) -> None:
    if size > available:
        rows = config.training.batch_size
        fewer = max(1, int(rows * available / size / 2))
        raise ConfigError(
            f"training.batch_size={rows}: training would hold {how}{readable_size(size)}, {readable_size(available)} "
            f"are available on {device}; type training.batch_size={fewer}, or a smaller model"
        )
