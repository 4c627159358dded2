"""Depth of a Sudoku: the level of trial and error that it needs when assumptions are checked by singles alone.

    0  singles, naked and hidden, solve it
    1  every candidate goes whose assumption leads singles to a contradiction, until nothing changes; then it is solved
    2  the same, where an assumption may itself use depth 1
    3  more is needed

A candidate that is refuted stays refuted when others go, so no order of elimination changes the result. The levels are
Berthier's T&E(0), T&E(1) and T&E(2), https://arxiv.org/abs/1304.1628.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from datasets_gen.sudoku.solver import measure_all, size_of
from datasets_gen.sudoku.tables import geometry


class Depths(NamedTuple):
    """Of N puzzles with one solution each."""

    depth: np.ndarray  # (N,) 0 to 3
    left: np.ndarray  # (N,) candidates of the cells that depth 1 leaves open


def depths(boards: np.ndarray, solutions: np.ndarray) -> Depths:
    """Depths of boards (N, S) of digits, 0 where a cell is open, whose only solutions (N, S) are known."""
    tables = geometry(size_of(boards))
    singles = tables._replace(segments=tables.segments[:0])  # without locked candidates
    depth, left = measure_all(*(np.ascontiguousarray(each, np.uint8) for each in (boards, solutions)), singles).T
    return Depths(depth.astype(np.int8), left.astype(np.int16))
