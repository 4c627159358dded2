"""Floating-point types."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor


class Dtypes(NamedTuple):
    """The types of a model's states, and of its matrix products if they are narrower (mixed precision)."""

    states: torch.dtype
    products: torch.dtype | None = None

    def __str__(self) -> str:
        return ", products in ".join(str(dtype).removeprefix("torch.") for dtype in self if dtype is not None)


def widest_float(device: torch.device) -> torch.dtype:
    """Return float64, or float32 on Apple's GPUs, which have no float64."""
    return torch.float32 if device.type == "mps" else torch.float64


def at_least_float32(x: Tensor) -> Tensor:
    """Return x in float32, or unchanged if it is float64."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def finite(tree: Any) -> Any:
    """Return the tree with None for every nan and infinity, which JSON lacks; states may diverge."""
    if isinstance(tree, dict):
        return {key: finite(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [finite(value) for value in tree]
    return None if isinstance(tree, float) and not math.isfinite(tree) else tree
