"""The structure of a puzzle as data: grid, groups, interchangeable symbols, and the symmetries of its rules."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

TURNS = 8  # flips and turns of a square, the identity among them


class Structure(BaseModel):
    """The structure of a puzzle of S cells; what is absent is not known.

    A partition gives every cell the number of its group, counted from 0: cells with the same number constrain one
    another. Sudoku has three: rows, columns and boxes. Any two tokens of `symbols` may change places, in question and
    answer alike. `outside` is the token that means what the region beyond the grid means too: a maze's wall, ARC's
    padding.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    grid: tuple[int, int] | None = Field(None, description="(rows, columns), cells counted row by row")
    groups: dict[str, tuple[int, ...]] = Field(default_factory=dict, description="partitions by name, each (S,)")
    symbols: tuple[int, ...] = Field((), description="interchangeable tokens, ascending")
    outside: int | None = Field(None, description="token of what lies beyond the grid")

    @property
    def cells(self) -> int | None:
        """S, where grid or groups tell it."""
        if self.grid is not None:
            return self.grid[0] * self.grid[1]
        return next((len(numbers) for numbers in self.groups.values()), None)

    def partition(self, name: str) -> np.ndarray:
        """(S,) int64: the group of each cell."""
        return np.array(self.groups[name], np.int64)

    def fault(self, seq_len: int, vocab_size: int) -> str | None:
        """Why the structure does not fit S = `seq_len` cells and `vocab_size` tokens, in words; None: it fits."""
        if self.grid is not None and (min(self.grid) < 1 or self.grid[0] * self.grid[1] != seq_len):
            return f"grid {self.grid[0]}x{self.grid[1]} does not hold the {seq_len} cells"
        for name, numbers in self.groups.items():
            if len(numbers) != seq_len:
                return f"groups.{name} numbers {len(numbers)} cells, the set has {seq_len}"
            found = set(numbers)
            if found != set(range(len(found))):
                return f"groups.{name} must number its groups 0..n-1 without a gap, got {sorted(found)[:4]}..."
        tokens = [*self.symbols, *([] if self.outside is None else [self.outside])]
        stranger = next((token for token in tokens if not 0 <= token < vocab_size), None)
        if stranger is not None:
            return f"token {stranger} is outside the vocabulary 0..{vocab_size - 1}"
        if list(self.symbols) != sorted(set(self.symbols)) or len(self.symbols) == 1:
            return f"symbols must be two or more different tokens in ascending order, got {list(self.symbols)}"
        if self.outside in self.symbols:
            return f"outside={self.outside} is one of the symbols, which may all be renamed"
        return None


@dataclass(frozen=True)
class GridSymmetry:
    """Symmetries that keep the rules of a puzzle: restarts draw from them.

    moves: rows move within their band and bands move whole, columns likewise. transpose: the grid may be transposed.
    turns: a square grid is flipped and turned, in eight ways. relabel: one permutation relabels the tokens in
    [first, last]. keeps_label: the label of a moved question is the moved label, so training augments by them.
    """

    bands: int
    rows_per_band: int
    stacks: int
    columns_per_stack: int
    transpose: bool
    relabel: tuple[int, int]
    moves: bool = True
    turns: bool = False
    keeps_label: bool = True

    def distinct(self, restarts: int) -> int:
        """How many of `restarts` see the puzzle differently: a square has eight turns, other symmetries are many."""
        return min(restarts, TURNS) if self.turns else restarts
