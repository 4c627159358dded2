"""Gated feed-forward layers, over the hidden axis or over the sequence axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

from reason.nn.linear import Linear
from reason.nn.norms import rms_norm

Activation = Literal["silu", "tanh"]


def tanh(x: Tensor) -> Tensor:
    """Return tanh x; in compiled code 2σ(2x) − 1, of which inductor on a CPU makes 1.7 times as fast a gate."""
    if not torch.compiler.is_compiling():
        return torch.tanh(x)
    wide = x.to(torch.promote_types(x.dtype, torch.float32))  # bfloat16 would lose small values in the difference
    return (2 * torch.sigmoid(2 * wide) - 1).to(x.dtype)


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"silu": torch.nn.functional.silu, "tanh": tanh}


def glu(y: Tensor, activation: Callable[[Tensor], Tensor], dim: int = -1) -> Tensor:
    """Return act(gate) ⊙ up, where gate is the first half of y along `dim` and up the second."""
    gate, up = y.chunk(2, dim=dim)
    return activation(gate) * up


def inner_width(width: int, expansion: float) -> int:
    """Return the next multiple of 256 above round(expansion · width · 2/3), as HRM and TRM size their gates."""
    return -(-round(expansion * width * 2 / 3) // 256) * 256


class SwiGLU(nn.Module):
    """down(act(gate) ⊙ up) over `width` features; the gate is the first half. CMM may use tanh instead of SiLU."""

    def __init__(self, width: int, inner: int, activation: Activation = "silu", std: float | None = None):
        super().__init__()
        self.activation = ACTIVATIONS[activation]
        self.gate_up = Linear(width, 2 * inner, std=std)
        self.down = Linear(inner, width, std=std)

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, S, D) to (B, S, D), over the hidden axis D."""
        return self.down(glu(self.gate_up(x), self.activation))

    def over_sequence(self, x: Tensor) -> Tensor:
        """Map (S, B, D) to (S, B, D), over the sequence axis S: the MLP mixer."""
        return self.down.over_sequence(glu(self.gate_up.over_sequence(x), self.activation, dim=0))

    def residual(self, x: Tensor, over_sequence: bool = False) -> Tensor:
        """Return rms(x + forward(x)), or rms(x + over_sequence(x)) with the norm over the sequence, in x's shape."""
        return rms_norm(x + self.over_sequence(x), dim=0) if over_sequence else rms_norm(x + self(x))
