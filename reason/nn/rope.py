"""Rotary positions, rotate-half form, along a sequence or along both axes of a grid."""

from __future__ import annotations

import torch
from torch import Tensor


def rotary_table(length: int, head_dim: int, base: float = 10_000.0) -> Tensor:
    """Return cos and sin of position × frequency, (2, length, head_dim) on the CPU; head_dim has two equal halves."""
    position = torch.arange(length, dtype=torch.float32, device="cpu")
    angle = _angles(position, head_dim // 2, base).repeat(1, 2)
    return torch.stack([angle.cos(), angle.sin()])


def rotary_2d_table(grid: tuple[int, int], head_dim: int, base: float = 10_000.0, prefix: int = 0) -> Tensor:
    """Return the table for grid cells, row by row: half of the frequencies rotate with the row, half with the column.

    Scores depend only on (row, column) differences, so a model fits every size of grid. Slot i of a `prefix` is at row
    −1 and column i (ours). head_dim is a multiple of 4.
    """
    rows, columns = grid
    row = torch.cat(
        [torch.full((prefix,), -1.0, device="cpu"), torch.arange(float(rows), device="cpu").repeat_interleave(columns)]
    )
    column = torch.cat(
        [torch.arange(float(prefix), device="cpu"), torch.arange(float(columns), device="cpu").repeat(rows)]
    )
    angle = torch.cat([_angles(position, head_dim // 4, base) for position in (row, column)], dim=1).repeat(1, 2)
    return torch.stack([angle.cos(), angle.sin()])


def _angles(position: Tensor, count: int, base: float) -> Tensor:
    """Return positions (n,) × `count` frequencies from 1 down to nearly 1/base: (n, count)."""
    return torch.outer(position, 1.0 / base ** (torch.arange(count, dtype=torch.float32, device="cpu") / count))


def rotate(x: Tensor, table: Tensor) -> Tensor:
    """Rotate heads (B, heads, S, head_dim) by the table (2, S, head_dim), in float32."""
    wide = x.to(table.dtype)
    first, second = wide.chunk(2, dim=-1)
    return (wide * table[0] + torch.cat([-second, first], dim=-1) * table[1]).to(x.dtype)
