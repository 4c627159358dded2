"""The symmetries of a puzzle, as data."""

from __future__ import annotations

from dataclasses import dataclass

TURNS = 8  # of a square, one of which leaves it as it is


@dataclass(frozen=True)
class GridSymmetry:
    """Symmetries that keep the rules of a puzzle, as data: further tries draw from them.

    Where `moves` holds, rows move within their band and bands move whole, columns likewise; where `transpose` holds,
    the grid may be transposed; where `turns` holds, a square grid is flipped and turned, in eight ways; tokens in
    [first, last] are relabelled by one permutation. Where `keeps_label` holds, the label of a moved question is the
    moved label, and training augments by them.
    """

    bands: int
    rows_per_band: int
    stacks: int
    columns_per_stack: int
    transpose: bool
    relabel: tuple[int, int]  # first and last token
    moves: bool = True
    turns: bool = False
    keeps_label: bool = True

    def distinct(self, tries: int) -> int:
        """How many of so many tries see a puzzle differently: a square has eight turns, other symmetries are many."""
        return min(tries, TURNS) if self.turns else tries
