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


def build_model(
    config: RecursiveConfig | LoopedConfig,
    shape: Shape,
    dtype: torch.dtype = torch.float32,
    products: torch.dtype | None = None,
) -> Reasoner:
    """The model that `config` describes for puzzles of `shape`.

    States are computed in `dtype`, matrix products in `products` where that is given; weights stay float32.
    """
    if isinstance(config, LoopedConfig):
        return LoopedModel(config, shape, dtype, products)
    return RecursiveModel(config, shape, dtype, products)
