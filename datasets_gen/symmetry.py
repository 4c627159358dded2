"""The symmetries of a puzzle, as data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class GridSymmetry:
    """Symmetries that keep a puzzle a puzzle and its label right, as data: augmentation draws from them.

    Where `moves` holds, rows move within their band and bands move whole, columns likewise; where
    `transpose` holds, the grid may be transposed; tokens in [first, last] are relabelled by one permutation.
    """

    bands: int
    rows_per_band: int
    stacks: int
    columns_per_stack: int
    transpose: bool
    relabel: tuple[int, int]  # first and last token
    moves: bool = True
