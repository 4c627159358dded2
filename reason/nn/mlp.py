"""Gated feed-forward layers, over the hidden axis or over the sequence axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

from reason.nn.linear import Linear

Activation = Literal["silu", "tanh"]
_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"silu": torch.nn.functional.silu, "tanh": torch.tanh}


def inner_width(width: int, expansion: float) -> int:
    """The next multiple of 256 above round(expansion · width · 2/3), as HRM and TRM size their gates."""
    return -(-round(expansion * width * 2 / 3) // 256) * 256


class SwiGLU(nn.Module):
    """down(act(gate) ⊙ up), gate half first; CMM may use tanh for SiLU. Mixes `width` features."""

    def __init__(self, width: int, expansion: float, activation: Activation = "silu"):
        super().__init__()
        inner = inner_width(width, expansion)
        self.activation = _ACTIVATIONS[activation]
        self.gate_up = Linear(width, 2 * inner)
        self.down = Linear(inner, width)

    def forward(self, x: Tensor) -> Tensor:
        """(B, S, D) -> (B, S, D), over the hidden axis D."""
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(self.activation(gate) * up)

    def over_sequence(self, x: Tensor) -> Tensor:
        """(S, B, D) -> (S, B, D), over the sequence axis S: the MLP mixer."""
        gate, up = self.gate_up.over_sequence(x).chunk(2, dim=0)
        return self.down.over_sequence(self.activation(gate) * up)
