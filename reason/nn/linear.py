"""Linear maps and embeddings whose float32 weights are cast to the activation's type at use."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

# The standard deviation that a unit normal keeps when cut at ±2: √(1 − 4φ(2)/erf(√2)).
_CUT_STD = math.sqrt(1 - 4 * math.exp(-2) / math.sqrt(2 * math.pi) / math.erf(math.sqrt(2)))


def truncated_normal_(tensor: Tensor, std: float) -> Tensor:
    """Fill in place from a normal truncated at two standard deviations, so that the result has exactly std `std`."""
    with torch.no_grad():
        return nn.init.trunc_normal_(tensor, a=-2.0, b=2.0).mul_(std / _CUT_STD)


def _initial(rows: int, width: int, std: float | None) -> Tensor:
    empty = torch.empty(rows, width)
    if empty.is_meta:
        return empty
    return truncated_normal_(empty, width**-0.5) if std is None else nn.init.normal_(empty, std=std)


class Linear(nn.Module):
    """y = x Wᵀ (+ b), W float32 (out, in), initialised truncated-normal with σ = 1/√in (HRM, TRM).

    With `std` W starts from a plain normal of that deviation (GPT-2); b starts at 0. If `widened`, compiled products
    of bfloat16 factors are computed in float32: the same products, which are summed in float32 in either case.
    """

    widened = False

    def __init__(self, in_features: int, out_features: int, bias: bool = False, std: float | None = None):
        super().__init__()
        self.weight = nn.Parameter(_initial(out_features, in_features, std))
        self.bias = nn.Parameter(torch.zeros(out_features)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Map (..., in) to (..., out)."""
        bias = None if self.bias is None else self.bias.to(x.dtype)
        weight = self.weight.to(x.dtype)
        if self._widens(x):
            wide = nn.functional.linear(x.float(), weight.float(), None if bias is None else bias.float())
            return wide.to(x.dtype)
        return nn.functional.linear(x, weight, bias)

    def over_sequence(self, x: Tensor) -> Tensor:
        """Return the same map along dim 0 instead of the last: (in, B, D) -> (out, B, D), one matrix product."""
        weight, columns = self.weight.to(x.dtype), x.flatten(1)
        y = (weight.float() @ columns.float()).to(x.dtype) if self._widens(x) else weight @ columns
        return y.view(-1, *x.shape[1:])

    def _widens(self, x: Tensor) -> bool:  # only compiled code fuses the casts
        return self.widened and x.dtype == torch.bfloat16 and torch.compiler.is_compiling()


def embedding(count: int, width: int, std: float | None = None) -> nn.Embedding:
    """Return a float32 table (count, D), initialised truncated-normal with σ = 1/√D, or as `Linear` with `std`."""
    return nn.Embedding.from_pretrained(_initial(count, width, std), freeze=False)
