"""A small model with an exit gate, for several test files."""

from typing import Any

import torch

from reason.data import PuzzleData
from reason.extensions.looped.model import LoopedConfig
from reason.models import build_model


def gated(data: PuzzleData) -> Any:
    torch.manual_seed(0)
    model = build_model(LoopedConfig(hidden_size=8, num_heads=1, gate="position", init_std=0.5), data.shape).double()
    torch.nn.init.normal_(model.gate.out.weight)  # cells leave at different steps
    return model
