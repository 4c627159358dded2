"""Where the cells of a puzzle lie, as constants that mixers read."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor


class Geometry(NamedTuple):
    """S' positions of S cells, K of each (K > 1: one for every symbol), as one network call sees them."""

    rotary: Tensor | None = None  # (2, S', D/heads)
    grid: tuple[int, int] | None = None  # rows, columns
    sends: Tensor | None = None  # (B, S', 1), 0 where a position sends nothing; None: 1 everywhere
    receives: Tensor | None = None  # (B, S', 1), 0 where no other position of any group sends; None: 1 everywhere
    pool: Tensor | None = None  # (G, S): h ↦ Σ h/√n over the n cells of each group
    spread: Tensor | None = None  # (S, G): 1 where the cell belongs to the group
    relations: tuple[int, ...] = ()  # groups of each partition; their sum is G
    symbols: int = 1  # K
    axes: tuple[int, ...] = ()  # sizes whose product is S, where every partition groups by some of them; else empty
    mixer_constants: Any = None  # what the `constants` of a mixer (reason.models.mixing) return for these puzzles
    kept_axes: tuple[tuple[int, ...], ...] = ()  # for each partition the axes that it groups by

    def masked(self, h: Tensor) -> Tensor:
        """h (B, S', D) with 0 at the positions that send nothing."""
        return h if self.sends is None else h * self.sends


UNKNOWN = Geometry()


def incidence(partitions: Sequence[np.ndarray]) -> np.ndarray:
    """(G, S) float32: 1 where a cell belongs to a group, for partitions (S,) of group numbers."""
    members = [numbers == np.arange(numbers.max() + 1)[:, None] for numbers in partitions]
    return np.concatenate(members).astype(np.float32)


def pooling(member: np.ndarray) -> np.ndarray:
    """The incidence (G, S) with every row divided by √n: independent members keep their variance in the sum."""
    return member / np.sqrt(member.sum(1, keepdims=True))


def factored(
    grid: tuple[int, int], partitions: Sequence[np.ndarray]
) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]] | None:
    """Axes of the grid by which partitions into blocks can be summed: 9×9 cells as 3×3×3×3, boxes by axes 0 and 2.

    None where a partition is not one into aligned blocks of one shape, counted row by row, or where the heights or the
    widths of two partitions do not divide one another.
    """
    row, column = np.indices(grid)
    blocks = []
    for numbers in partitions:
        board = numbers.reshape(grid)
        height, width = int((board[:, 0] == board[0, 0]).sum()), int((board[0] == board[0, 0]).sum())
        if not np.array_equal(board, row // height * -(-grid[1] // width) + column // width):
            return None
        blocks.append((height, width))
    axes: list[int] = []
    units: list[tuple[int, int]] = []  # of each axis: 0 of rows or 1 of columns, and how far one step on it goes
    for direction, whole in enumerate(grid):
        steps = sorted({1, whole, *(block[direction] for block in blocks)}, reverse=True)
        if any(large % small for large, small in pairwise(steps)):
            return None
        axes += [large // small for large, small in pairwise(steps)]
        units += [(direction, small) for small in steps[1:]]
    kept = [tuple(i for i, (d, step) in enumerate(units) if step >= block[d]) for block in blocks]
    return tuple(axes), tuple(kept)
