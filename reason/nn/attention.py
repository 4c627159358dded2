"""Multi-head attention over cells."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from reason.nn.linear import Linear
from reason.nn.rope import rotate


class Attention(nn.Module):
    """Multi-head attention; one linear map (3D, D) computes q, k and v."""

    def __init__(self, width: int, num_heads: int, bias: bool = False, std: float | None = None):
        super().__init__()
        assert width % num_heads == 0, "the config checks this"
        self.num_heads = num_heads
        self.qkv = Linear(width, 3 * width, bias, std)
        self.out = Linear(width, width, bias, std)

    def forward(self, x: Tensor, rotary: Tensor | None = None) -> Tensor:
        """Map (B, S, D) to (B, S, D); `rotary` as from `rotary_table`, or None."""
        return self.joined(attend(*self.split(x, rotary)))

    def split(self, x: Tensor, rotary: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Return q, k, v of x (B, S, D), each (B, heads, S, D/heads)."""
        batch, cells, width = x.shape
        q, k, v = self.qkv(x).view(batch, cells, 3, self.num_heads, width // self.num_heads).permute(2, 0, 3, 1, 4)
        return (q, k, v) if rotary is None else (rotate(q, rotary), rotate(k, rotary), v)

    def joined(self, y: Tensor) -> Tensor:
        """Map (B, heads, S, D/heads) to (B, S, D), through the output projection."""
        return self.out(y.transpose(1, 2).flatten(2))


def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Return softmax(q kᵀ/√d) v for q, k, v (..., S, d), in the same shape.

    This is PyTorch's fused attention, except for bfloat16 on a CPU, where its backward pass takes 13 times as long as
    these products (B 128, 36 cells, 4 heads of 32).
    """
    if q.device.type == "cpu" and q.dtype == torch.bfloat16:
        return (q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5).softmax(-1) @ v
    return torch.nn.functional.scaled_dot_product_attention(q, k, v)
