"""reason memory: an estimate of a training's memory, before any tensor is allocated."""

from __future__ import annotations

import torch

from datasets_gen.layout import read_metadata, splits_of
from datasets_gen.typed import Parser
from reason.config.overrides import override, split_arguments
from reason.config.schema import Config
from reason.data import shape_of
from reason.errors import ConfigError
from reason.extensions.memory.estimate import estimate_memory
from reason.files import readable_size
from reason.models.base import Shape
from reason.presets import preset
from reason.training.device import pick_device
from reason.training.precision import dtypes

SMALL_GPU = 16_000_000_000  # bytes: a T4, a V100
CUDA_ITSELF = 600_000_000  # bytes, of its context


DESCRIPTION = """Estimate the memory of a training, without allocating it: weights, gradients, moments, averages,
the carry and saved activations.

  reason memory trm-mlp-sudoku                                    also: python train.py trm-mlp-sudoku --memory
  reason memory trm-att-maze model.gradient_checkpointing=true training.batch_size=64
"""


def main(argv: list[str]) -> int:
    """Print the estimate for a preset on puzzles of its set's shape; returns the exit status.

    Raises:
        ConfigError: there is not one preset, or a setting does not fit.
    """
    parser = Parser(prog="reason memory", description=DESCRIPTION)
    parser.add_argument("words", nargs="+", metavar="PRESET | section.key=value")
    words, pairs = split_arguments(parser.parse_args(argv).words, {"data": "data.directory"})
    if len(words) != 1:
        raise ConfigError(f"one preset is needed, got {' '.join(words) or 'none'}; see: reason presets")
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
    checkpointing = getattr(config.model, "gradient_checkpointing", None)
    leaner = "model.gradient_checkpointing=true" if checkpointing is False else None
    return f"type {leaner} (slower by the forward passes), or {fewer}" if isinstance(leaner, str) else f"type {fewer}"


def shape_in(directory: str) -> Shape:
    """The shape of a set's puzzles, from its metadata alone."""
    return shape_of(read_metadata(directory, "train"))
