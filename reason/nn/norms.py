"""Normalisation."""

from __future__ import annotations

import torch
from torch import Tensor

EPS = 1e-5


def rms_norm(x: Tensor, dim: int = -1) -> Tensor:
    """x / √(mean x² + 1e-5) along `dim`, computed in float32, without weight; same shape and dtype as x."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    return (wide * torch.rsqrt(wide.square().mean(dim, keepdim=True) + EPS)).to(x.dtype)
