"""reason memory: estimates the memory of a training, before any tensor is allocated."""

from __future__ import annotations

import torch

from datasets_gen.layout import read_metadata, splits_of
from datasets_gen.typed import Parser
from reason.config.overrides import override, split_arguments
from reason.data.puzzles import shape_of
from reason.errors import ConfigError
from reason.extensions.memory.estimate import estimate_memory
from reason.files import readable_size
from reason.presets import preset
from reason.training.device import pick_device
from reason.training.precision import Precision, dtypes

DESCRIPTION = """Estimate the memory of a training, without allocating it: weights, gradients, moments, averages,
the carry and saved activations.

  reason memory trm-mlp-sudoku
  reason memory trm-att-maze model.gradient_checkpointing=true training.batch_size=64
  reason memory trm-mlp-sudoku device=cuda                        in 16 bits on a GPU, also on a machine without GPU
"""


def main(argv: list[str]) -> int:
    """Print the estimate for a preset on puzzles of its set's shape; returns the exit status."""
    parser = Parser(prog="reason memory", description=DESCRIPTION)
    parser.add_argument("words", nargs="+", metavar="PRESET | section.key=value")
    words, pairs = split_arguments(parser.parse_args(argv).words, {"data": "data.directory"})
    if len(words) != 1:
        raise ConfigError(f"one preset is needed, got {' '.join(words) or 'none'}; see: reason presets")
    config = override(preset(words[0]).config(), pairs)
    if config.device.startswith("cuda") and not torch.cuda.is_available():  # any type of 16 bits
        asked = config.training.precision.replace("bf16", "fp16")
        halves: Precision = "amp-fp16" if asked.startswith("amp") else "fp32" if asked == "fp32" else "fp16"
        device, computed = torch.device("cuda"), dtypes(halves, torch.device("cuda"))
    else:
        device = pick_device(config.device)
        computed = dtypes(config.training.precision, device)
    named = "data.directory" in pairs  # then a missing set is an error
    made = [directory for directory in config.data.directories if named or "train" in splits_of(directory)]
    shapes = [shape_of(read_metadata(directory, "train")) for directory in made]
    shape = max(shapes, key=lambda shape: shape.seq_len) if made else preset(words[0]).shape
    memory = estimate_memory(config, shape, computed, device.type)
    rows = config.training.batch_size
    print(f"memory of {config.name}: {rows} rows of {shape.seq_len} cells, {computed} on {device}")
    for name, size in (vars(memory) | {"in all": memory.total}).items():
        print(f"  {name:12}{readable_size(size):>10}")
    print("counted in eager mode on tensors without memory; CUDA itself takes 0.3 to 0.6 GB more")
    checkpointed = getattr(config.model, "gradient_checkpointing", True)
    recompute = "" if checkpointed else "model.gradient_checkpointing=true (slower by the forward passes), or "
    print(f"less: {recompute}a smaller training.batch_size")
    if device.type == "cpu":
        print("counted for this CPU; for a GPU: device=cuda")
    return 0
