"""train.py --memory: an estimate of a training's memory, before any tensor is allocated."""

from __future__ import annotations

import torch
from rich.table import Table
from tqdm import tqdm

import reason.settings.capabilities as can
from datasets_gen.layout import read_metadata, splits_of
from reason.config.overrides import override, split_arguments
from reason.config.schema import Config
from reason.data import shape_of
from reason.errors import ConfigError
from reason.machine.auto import CUDA_ITSELF
from reason.machine.estimate import Memory, estimate_memory, readable_size
from reason.models.base import Shape
from reason.nn.dtypes import Dtypes
from reason.presets import PRESETS, preset
from reason.training.device import pick_device
from reason.training.precision import dtypes

SMALL_GPU = 16_000_000_000  # bytes: a T4, a V100


def print_memory(words: list[str], pairs: dict[str, str]) -> int:
    """Print the estimate for a preset on puzzles of its set's shape; returns the exit status.

    Raises:
        ConfigError: there is not one preset, or a setting does not fit.
    """
    if len(words) != 1:
        raise ConfigError(f"--memory needs one preset, got {' '.join(words) or 'none'}; see: reason presets")
    chosen = preset(words[0])
    pairs.pop("run", None)
    config = override(chosen.config(), pairs)
    device = pick_device(config.device)
    computed = dtypes(config.training.precision, device)
    made = [directory for directory in config.data.directories if "train" in splits_of(directory)]
    shape = max(map(shape_in, made), key=lambda shape: shape.seq_len) if made else chosen.shape
    memory = estimate_memory(config, shape, computed, device.type)
    how = f"{computed} on {device}"
    print(f"memory of {config.name}: {config.training.batch_size} rows of {shape.seq_len} cells, {how}")
    for name, size in vars(memory).items():
        print(f"  {name:12}{readable_size(size):>10}")
    print(f"  {'in all':12}{readable_size(memory.total):>10}")
    print("counted in eager mode on tensors without memory; CUDA itself takes 0.3 to 0.6 GB more")
    available = SMALL_GPU
    if device.type == "cuda":
        available, whole = torch.cuda.mem_get_info(device)
        name = torch.cuda.get_device_name(device)
        print(f"{name}: {readable_size(whole)}, {readable_size(available)} of it free")
    if memory.total + CUDA_ITSELF > available:
        print(f"more than {readable_size(available)}: {_mend(config)}")
    return 0


def _mend(config: Config) -> str:
    """Settings that take less memory."""
    fewer = f"training.batch_size={max(1, config.training.batch_size // 2)}"
    leaner = config.model.capabilities().get(can.GRADIENT_CHECKPOINTING)
    return f"type {leaner} (slower by the forward passes), or {fewer}" if isinstance(leaner, str) else f"type {fewer}"


def memory_table(prefix: str) -> Table:
    """The estimates of all presets whose names begin with `prefix`, in 16 bits.

    Raises:
        ConfigError: there is none.
    """
    chosen = [PRESETS[prefix]] if prefix in PRESETS else [p for name, p in PRESETS.items() if name.startswith(prefix)]
    if not chosen:
        raise ConfigError(f"no preset's name begins with {prefix}; see: reason presets")
    view = Table(title="memory in training, in 16 bits (amp-…: the products alone), eager", title_justify="left")
    for column in ("preset", "rows", "weights, moments, EMA", "activations", "in all", "with checkpointing"):
        view.add_column(column, justify="left" if column == "preset" else "right", no_wrap=column == "preset")
    known: dict[str, Memory] = {}  # rows of a table often have the same memory
    for each in tqdm(chosen, unit="preset", desc="estimating", leave=False):
        config = each.config()
        memory = _estimated(config, each.shape, known)
        lean = "-"
        leaner = config.model.capabilities().get(can.GRADIENT_CHECKPOINTING)
        if isinstance(leaner, str):
            lean = readable_size(_estimated(override(config, split_arguments([leaner])[1]), each.shape, known).total)
        kept = memory.weights + memory.gradients + memory.moments + memory.average
        sizes = (kept, memory.activations + memory.carry, memory.total)
        view.add_row(each.name, str(config.training.batch_size), *map(readable_size, sizes), lean)
    return view


def _estimated(config: Config, shape: Shape, known: dict[str, Memory]) -> Memory:
    """The estimate for a 16-bit GPU, cached by what memory depends on."""
    mixed = config.training.precision.startswith("amp")
    computed = Dtypes(torch.float32, torch.float16) if mixed else Dtypes(torch.float16)
    loss = config.loss.model_dump(exclude={"weights", "schedules"}) | {"present": config.loss.present}
    parts = (config.model.model_dump(), config.rollout.model_dump(exclude={"supervision_steps", "accum_steps"}), loss)
    key = repr((shape, parts, computed, config.balance.kind, config.ema.decay is None, config.training.batch_size))
    if key not in known:
        known[key] = estimate_memory(config, shape, computed, "cuda")
    return known[key]


def shape_in(directory: str) -> Shape:
    """The shape of a set's puzzles, from its metadata alone."""
    return shape_of(read_metadata(directory, "train"))
