"""One layer of a reasoning network, and a stack of them."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from reason.nn.attention import Attention
from reason.nn.mlp import Activation, SwiGLU
from reason.nn.norms import rms_norm

Mixer = Literal["attention", "mlp"]


class Block(nn.Module):
    """Post-norm: h ← rms(h + mix(h)); h ← rms(h + mlp(h)).

    `mix` is attention, or a SwiGLU over the sequence whose norm is also taken over the sequence (TRM).
    """

    def __init__(self, width: int, cells: int, mixer: Mixer, heads: int, expansion: float, activation: Activation):
        super().__init__()
        self.attention = Attention(width, heads) if mixer == "attention" else None
        self.mixer = SwiGLU(cells, expansion, activation) if mixer == "mlp" else None
        self.mlp = SwiGLU(width, expansion, activation)

    def forward(self, h: Tensor, rotary: Tensor | None) -> Tensor:
        """(B, S, D) -> (B, S, D)."""
        if self.attention is not None:
            h = rms_norm(h + self.attention(h, rotary))
        if self.mixer is not None:
            h = rms_norm(h + self.mixer.over_sequence(h), dim=1)
        return rms_norm(h + self.mlp(h))


class Stack(nn.Module):
    """F: the blocks in turn, the whole turn `repeats` times (CMM's "identical transformer layers": 1 block, 2)."""

    def __init__(self, blocks: list[Block], repeats: int = 1):
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.repeats = repeats

    def forward(self, h: Tensor, rotary: Tensor | None) -> Tensor:
        """(B, S, D) -> (B, S, D)."""
        for _ in range(self.repeats):
            for block in self.blocks:
                h = block(h, rotary)
        return h
