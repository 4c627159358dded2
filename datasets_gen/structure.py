"""The structure of a puzzle as data: grid, groups, interchangeable symbols, and the symmetries of its rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

MOST = 2**15 - 1  # a clue number is stored as int16

TURNS = 8  # flips and turns of a square, the identity among them


class Relation(BaseModel):
    """A kind of constraint, and the instances that every puzzle of the set has.

    An instance is a list of cells. Instances of a single puzzle, and all that carry numbers, are in the array
    `relations` of the split (datasets_gen/layout).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(description="its name, unique in the set")
    rule: Any = Field(None, description="the constraint as nested lists, which checks answers; networks do not read it")
    places: int = Field(0, ge=0, description="ordered places of an instance; 0: any number of cells, without order")
    clues: int = Field(0, ge=0, description="numbers that an instance may carry")
    highest: int = Field(0, ge=0, le=MOST, description="the largest such number")
    instances: tuple[tuple[int, ...], ...] = Field((), description="cells of the instances of every puzzle")
    seen: bool = Field(True, description="false: networks do not read it")

    def fits(self, cells: Sequence[int], seq_len: int) -> bool:
        """Return whether these cells of S = `seq_len` are an instance: all different, one for each place."""
        return 0 < len(cells) == len({*cells} & {*range(seq_len)}) and len(cells) in (self.places or len(cells),)


class Structure(BaseModel):
    """The structure of a puzzle of S cells; fields that are not set are unknown.

    A partition gives every cell the number of its group, counted from 0: cells with the same number constrain one
    another. Sudoku has three: rows, columns and boxes. Any two tokens of `symbols` may change places, in question and
    answer alike. `outside` is the token of cells outside the grid, such as a maze's wall or ARC's
    padding.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    grid: tuple[int, int] | None = Field(None, description="(rows, columns), cells counted row by row")
    groups: dict[str, tuple[int, ...]] = Field(default_factory=dict, description="partitions by name, each (S,)")
    relations: tuple[Relation, ...] = Field((), description="kinds of constraints, and instances of every puzzle")
    symbols: tuple[int, ...] = Field((), description="interchangeable tokens, ascending")
    values: tuple[int, ...] = Field((), description="in place of symbols: tokens whose order means something")
    lowest: int | None = Field(None, description="the number that the first of values means, for example in sums")
    outside: int | None = Field(None, description="token of cells outside the grid")

    @model_serializer(mode="wrap")
    def _without_rare_fields(self, serialized: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Omit fields that most sets lack."""
        rare = ("relations", "values", "lowest")
        return {key: value for key, value in serialized(self).items() if value or value == 0 or key not in rare}

    @property
    def alphabet(self) -> tuple[int, ...]:
        """Return the tokens that an open cell may get: symbols or values, as far as they are declared."""
        return self.symbols or self.values

    @property
    def clues(self) -> int:
        """Return C, the maximum count of numbers of an instance."""
        return max((relation.clues for relation in self.relations), default=0)

    @property
    def unread(self) -> list[str]:
        """Return the names of relations that networks read neither as instances nor as groups."""
        grouped = ["alldifferent", "x"] if self.groups else None
        return [r.name.removeprefix("unseen_") for r in self.relations if not r.seen and r.rule != grouped]

    @property
    def cells(self) -> int | None:
        """Return S, or None if neither grid nor groups determine it."""
        if self.grid is not None:
            return self.grid[0] * self.grid[1]
        return next((len(numbers) for numbers in self.groups.values()), None)

    def partition(self, name: str) -> np.ndarray:
        """Return (S,) int64: the group of each cell."""
        return np.array(self.groups[name], np.int64)

    def fault(self, seq_len: int, vocab_size: int) -> str | None:
        """Return why the structure does not fit S = `seq_len` cells and `vocab_size` tokens, or None if it fits."""
        if self.grid is not None and (min(self.grid) < 1 or self.cells != seq_len):
            return f"grid {self.grid[0]}x{self.grid[1]} does not have {seq_len} cells"
        for name, numbers in self.groups.items():
            if len(numbers) != seq_len or {*numbers} != {*range(len({*numbers}))}:
                return f"groups.{name} must number the groups of {seq_len} cells 0..n-1 without a gap"
        names = [relation.name for relation in self.relations]
        if len(set(names)) < len(names):
            return f"relations must have different names, got {names}"
        for relation in self.relations:
            for cells in relation.instances:
                if not relation.fits(cells, seq_len):
                    wanted = f"{relation.places or 'some'} different cells of 0..{seq_len - 1}"
                    return f"relations: an instance of {relation.name} must have {wanted}, got {[*cells]}"
        tokens = [*self.alphabet, *([] if self.outside is None else [self.outside])]
        if len(set(tokens)) < len(tokens) or len(self.alphabet) == 1 or not set(tokens) <= set(range(vocab_size)):
            return f"symbols or values, two or more, and outside must be different tokens 0..{vocab_size - 1}: {tokens}"
        if (self.symbols and self.values) or [*self.symbols] != sorted(self.symbols):
            return f"tokens are either symbols, in ascending order, or values, got {[*self.symbols]}, {[*self.values]}"
        return None


def units(grid: tuple[int, int], box: tuple[int, int] | None) -> dict[str, tuple[int, ...]]:
    """Return the named partitions of a grid: rows, columns and, if it has boxes of that shape, boxes."""
    row, column = np.indices(grid)
    partitions = {"row": row, "column": column}
    if box is not None:
        partitions["box"] = row // box[0] * (grid[1] // box[1]) + column // box[1]
    return {name: tuple(numbers.ravel().tolist()) for name, numbers in partitions.items()}


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

    def moved(self, board: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return boards (..., rows, columns) of uint8 under one random symmetry."""
        if (self.transpose or self.turns) and rng.random() < 0.5:
            board = board.swapaxes(-1, -2)
        first, last = self.relabel
        names = np.arange(256, dtype=np.uint8)
        names[first : last + 1] = first + rng.random(last + 1 - first).argsort()
        if self.turns:
            return np.rot90(names[board], int(rng.random() * 4), (-2, -1))
        if not self.moves:
            return names[board]
        down, across = (
            np.concatenate([band * per_band + rng.random(per_band).argsort() for band in rng.random(bands).argsort()])
            for bands, per_band in ((self.bands, self.rows_per_band), (self.stacks, self.columns_per_stack))
        )
        return names[board][..., down, :][..., across]

    def distinct(self, restarts: int) -> int:
        """Return how many of `restarts` get a different puzzle: eight if a square is only flipped and turned."""
        first, last = self.relabel
        return min(restarts, TURNS) if self.turns and first == last else restarts
