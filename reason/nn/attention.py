"""Multi-head attention over cells."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from reason.nn.linear import Linear
from reason.nn.rope import rotate


class Attention(nn.Module):
    """Non-causal multi-head attention, no biases; q, k, v stacked in one map (3D, D)."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        assert width % heads == 0, "the config checks this"
        self.heads = heads
        self.qkv = Linear(width, 3 * width)
        self.out = Linear(width, width)

    def forward(self, x: Tensor, rotary: Tensor | None) -> Tensor:
        """(B, S, D) -> (B, S, D); `rotary` as from `rotary_table`, or None."""
        batch, cells, width = x.shape
        q, k, v = self.qkv(x).view(batch, cells, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        if rotary is not None:
            q, k = rotate(q, rotary), rotate(k, rotary)
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v)  # (B, heads, S, D/heads)
        return self.out(y.transpose(1, 2).reshape(batch, cells, width))
