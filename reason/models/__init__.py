"""Reasoners: discrete dynamical systems with a readout."""

from __future__ import annotations

import torch

from reason.models.base import Reasoner, Shape
from reason.models.recursive import RecursiveConfig, RecursiveModel

ModelConfig = RecursiveConfig


def build_model(config: ModelConfig, shape: Shape, dtype: torch.dtype = torch.float32) -> Reasoner:
    """The model that `config` describes for puzzles of `shape`, computing in `dtype` (weights stay float32)."""
    return RecursiveModel(config, shape, dtype)
