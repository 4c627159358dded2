"""Norms: RMS without a weight (HRM, TRM), and the three kinds that STARS compares."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.autograd.forward_ad import unpack_dual

from reason.nn.dtypes import at_least_float32

EPS = 1e-5

NormKind = Literal["layernorm", "rmsnorm", "simple"]


def rms_norm(x: Tensor, dim: int = -1) -> Tensor:
    """x / √(mean x² + 1e-5) along `dim`, computed in float32, without weight; same shape and dtype as x."""
    wide = at_least_float32(x)
    return (wide * torch.rsqrt(wide.square().mean(dim, keepdim=True) + EPS)).to(x.dtype)


class Norm(nn.Module):
    """A norm over the hidden axis, in the three kinds that STARS compares.

    layernorm: centred, with gain and bias; rmsnorm: not centred, with gain; simple: centred, without either (STARS
    §4.2.1 says "normalization without learnable affine parameters"; that it centres is ours).
    """

    def __init__(self, width: int, kind: NormKind, eps: float = EPS):
        super().__init__()
        self.width, self.kind, self.eps = width, kind, eps
        self.weight = nn.Parameter(torch.ones(width)) if kind != "simple" else None
        self.bias = nn.Parameter(torch.zeros(width)) if kind == "layernorm" else None

    def forward(self, x: Tensor) -> Tensor:
        """(..., D) -> (..., D), computed in float32 or wider; same dtype as x.

        Under forward-mode differentiation a centred norm is computed from its formula: the tangent of the fused kernel
        treats mean and deviation as constants when it is differentiated again (torch 2.13; `gradcheck` in the tests).
        """
        wide = at_least_float32(x)
        weight, bias = _like(self.weight, wide), _like(self.bias, wide)
        if self.kind == "rmsnorm":
            return nn.functional.rms_norm(wide, (self.width,), weight, self.eps).to(x.dtype)
        if torch.compiler.is_compiling() or unpack_dual(wide).tangent is None:
            return nn.functional.layer_norm(wide, (self.width,), weight, bias, self.eps).to(x.dtype)
        centred = wide - wide.mean(-1, keepdim=True)
        y = centred * torch.rsqrt(centred.square().mean(-1, keepdim=True) + self.eps)
        return (y if weight is None or bias is None else y * weight + bias).to(x.dtype)


def _like(parameter: Tensor | None, x: Tensor) -> Tensor | None:
    return None if parameter is None else parameter.to(x.dtype)
