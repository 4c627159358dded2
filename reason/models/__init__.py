"""Reasoners: discrete dynamical systems with a readout."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field

from reason.models.base import Reasoner, Shape
from reason.models.looped import LoopedConfig, LoopedModel
from reason.models.recursive import RecursiveConfig, RecursiveModel

ModelConfig = Annotated[RecursiveConfig | LoopedConfig, Field(discriminator="kind")]
FAMILIES: dict[str, type[RecursiveConfig] | type[LoopedConfig]] = {"recursive": RecursiveConfig, "looped": LoopedConfig}


def build_model(config: RecursiveConfig | LoopedConfig, shape: Shape, dtype: torch.dtype = torch.float32) -> Reasoner:
    """The model that `config` describes for puzzles of `shape`, computing in `dtype` (weights stay float32)."""
    if isinstance(config, LoopedConfig):
        return LoopedModel(config, shape, dtype)
    return RecursiveModel(config, shape, dtype)
