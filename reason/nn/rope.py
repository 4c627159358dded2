"""Rotary positions, rotate-half form."""

from __future__ import annotations

import torch
from torch import Tensor


def rotary_table(length: int, head_dim: int, base: float = 10_000.0) -> Tensor:
    """cos and sin of position × frequency, float32 (2, length, head_dim), on the CPU; the halves of head_dim repeat."""
    frequency = 1.0 / base ** (torch.arange(0, head_dim, 2, dtype=torch.float32, device="cpu") / head_dim)
    angle = torch.outer(torch.arange(length, dtype=torch.float32, device="cpu"), frequency).repeat(1, 2)
    return torch.stack([angle.cos(), angle.sin()])


def rotate(x: Tensor, table: Tensor) -> Tensor:
    """Rotate heads (B, heads, S, head_dim) by the table (2, S, head_dim), in float32."""
    wide = x.to(table.dtype)
    first, second = wide.chunk(2, dim=-1)
    return (wide * table[0] + torch.cat([-second, first], dim=-1) * table[1]).to(x.dtype)
