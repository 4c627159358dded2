"""train.py --memory: what a preset's training would hold, before anything is made."""

from __future__ import annotations

import torch

from datasets_gen.layout import read_metadata, splits_of
from reason.assemble import estimate_memory
from reason.config import override
from reason.errors import ConfigError
from reason.models.base import Shape
from reason.presets import preset
from reason.training.memory import readable_size
from reason.training.precision import activation_dtype, pick_device


def print_memory(words: list[str], pairs: dict[str, str]) -> int:
    """The estimate for a preset on puzzles of its set's shape; returns the exit status.

    Raises:
        ConfigError: there is not one preset, or a setting does not fit.
    """
    if len(words) != 1:
        raise ConfigError(f"--memory needs one preset, got {' '.join(words) or 'none'}; see: reason presets")
    chosen = preset(words[0])
    pairs.pop("run", None)
    config = override(chosen.config(), pairs)
    device = pick_device(config.device)
    dtype = activation_dtype(config.training.precision, device)
    directory = config.data.directory
    shape = shape_of(directory) if directory and "train" in splits_of(directory) else chosen.shape
    memory = estimate_memory(config, shape, dtype, device.type)
    how = f"{str(dtype).removeprefix('torch.')} on {device}"
    print(f"memory of {config.name}: {config.training.batch_size} rows of {shape.cells} cells, {how}")
    for name, size in vars(memory).items():
        print(f"  {name:12}{readable_size(size):>10}")
    print(f"  {'in all':12}{readable_size(memory.total):>10}")
    print("counted in eager mode on tensors without memory; CUDA itself takes 0.3 to 0.6 GB more")
    if device.type == "cuda":
        free, whole = torch.cuda.mem_get_info(device)
        print(f"{torch.cuda.get_device_name(device)}: {readable_size(whole)}, {readable_size(free)} of it free")
    return 0


def shape_of(directory: str) -> Shape:
    """The shape of a set's puzzles, from its metadata alone."""
    m = read_metadata(directory, "train")
    return Shape(cells=m.seq_len, vocabulary=m.vocab_size, identifiers=m.num_puzzle_identifiers)
