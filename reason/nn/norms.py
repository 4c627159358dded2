"""The RMS norm of HRM and TRM, without a weight."""

from __future__ import annotations

import torch
from torch import Tensor

from reason.nn.dtypes import at_least_float32

EPS = 1e-5


def rms_norm(x: Tensor, dim: int = -1) -> Tensor:
    """Return x / √(mean x² + 1e-5) along `dim`, without a weight; computed in float32, in x's dtype."""
    wide = at_least_float32(x)
    return (wide * torch.rsqrt(wide.square().mean(dim, keepdim=True) + EPS)).to(x.dtype)
