"""What a puzzle says of its cells, as data: its grid, its groups and its interchangeable symbols."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from pydantic import BaseModel, ConfigDict, Field


class Structure(BaseModel):
    """The structure of a puzzle of S cells; what is absent is not known.

    A partition gives every cell the number of its group, counted from 0: cells with the same number constrain one
    another. Sudoku has three, its rows, columns and boxes. Any token of `symbols` may be renamed to any other one, in
    question and answer alike. `outside` is the token that says what the region beyond the edge of the grid says too:
    a maze's wall, ARC's padding.
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
        """What contradicts a set of S = `seq_len` cells and `vocab_size` tokens, in words; None: nothing does."""
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


def partitions(named: Mapping[str, np.ndarray]) -> dict[str, tuple[int, ...]]:
    """Partitions as `Structure` keeps them, from arrays of group numbers of any shape."""
    return {name: tuple(numbers.ravel().tolist()) for name, numbers in named.items()}


class SquareBoard:
    """A board of `size` × `size` cells."""

    size: int

    @property
    def seq_len(self) -> int:
        """Cells of the board, row by row."""
        return self.size**2

    @property
    def grid_shape(self) -> tuple[int, int]:
        """(rows, columns) of the board."""
        return self.size, self.size
