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

from datasets_gen.compiled import compiled
from datasets_gen.sudoku.solver import BITS, deduce, lone, masks, size_of
from datasets_gen.sudoku.tables import geometry


@compiled
def _assume(mask, cell, candidates, stack, table):
    """Leave some candidates of a cell, and deduce by singles; False where a contradiction shows."""
    mask[cell] = candidates
    if candidates == 0:
        return False
    stack[0] = cell
    fresh = 1 if candidates & (candidates - 1) == 0 else 0
    return deduce(mask, stack, fresh, table[1][cell], table)


@compiled
def _exhaust(mask, true, trial, stack, table):
    """Strike out all that depth 1 refutes; False where a contradiction shows. true (S,): candidates not tried."""
    quiet, cell = 0, 0
    while quiet < len(mask):
        quiet += 1
        rest = mask[cell] & ~true[cell]
        while rest and mask[cell] & (mask[cell] - 1):
            bit = rest & (~rest + np.uint16(1))
            rest ^= bit
            trial[:] = mask
            if not _assume(trial, cell, bit, stack, table):
                if not _assume(mask, cell, mask[cell] & ~bit, stack, table):
                    return False
                quiet = 0
                rest &= mask[cell]
        cell = cell + 1 if cell + 1 < len(mask) else 0
    return True


@compiled
def _exhaust_twice(mask, true, trial, inner, stack, table):
    """Strike out all that depth 2 refutes of a puzzle with a solution, whose candidates are `true`."""
    none, quiet, cell = np.zeros(len(mask), np.uint16), 0, 0
    while quiet < len(mask):
        quiet += 1
        rest = mask[cell] & ~true[cell]
        while rest and mask[cell] & (mask[cell] - 1):
            bit = rest & (~rest + np.uint16(1))
            rest ^= bit
            trial[:] = mask
            if not (_assume(trial, cell, bit, stack, table) and _exhaust(trial, none, inner, stack, table)):
                _assume(mask, cell, mask[cell] & ~bit, stack, table)
                _exhaust(mask, true, inner, stack, table)
                quiet = 0
                rest &= mask[cell]
        cell = cell + 1 if cell + 1 < len(mask) else 0


@compiled
def _candidates(mask):
    """Candidates of the open cells."""
    count = 0
    for cell in range(len(mask)):
        if mask[cell] & (mask[cell] - 1):
            count += BITS[mask[cell]]
    return count


@compiled
def _measure_all(boards, solutions, table):
    """The depth of N boards (N, S), and the candidates that depth 1 leaves: (N, 2).

    solutions (N, S): none of their candidates is ever refuted.
    """
    count, cells = boards.shape
    found, size = np.zeros((count, 2), np.int64), table[0].shape[1]
    stack, trial, inner = np.empty(cells, np.int64), np.empty(cells, np.uint16), np.empty(cells, np.uint16)
    for n in range(count):
        mask, true = masks(boards[n], size), masks(solutions[n], size)
        deduce(mask, stack, lone(mask, stack), (1 << len(table[0])) - 1, table)
        if _candidates(mask) == 0:
            continue
        _exhaust(mask, true, trial, stack, table)
        found[n, 1] = _candidates(mask)
        if found[n, 1]:
            _exhaust_twice(mask, true, trial, inner, stack, table)
            found[n, 0] = 2 if _candidates(mask) == 0 else 3
        else:
            found[n, 0] = 1
    return found


MOST = 20_000  # puzzles whose depth is a statistic: 1.5 ms each


class Depths(NamedTuple):
    """Of N puzzles with one solution each."""

    depth: np.ndarray  # (N,) 0 to 3
    left: np.ndarray  # (N,) candidates of the cells that depth 1 leaves open


def depths(boards: np.ndarray, solutions: np.ndarray) -> Depths:
    """Depths of boards (N, S) of digits, 0 where a cell is open, whose only solutions (N, S) are known."""
    tables = geometry(size_of(boards))
    singles = tables._replace(segments=tables.segments[:0])  # without locked candidates
    depth, left = _measure_all(*(np.ascontiguousarray(each, np.uint8) for each in (boards, solutions)), singles).T
    return Depths(depth.astype(np.int8), left.astype(np.int16))


def statistics(boards: np.ndarray, solutions: np.ndarray) -> dict[str, np.ndarray]:
    """What `show` and the study of difficulty print of a set that is not too large."""
    if len(boards) > MOST:
        return {}
    measured = depths(boards, solutions)
    return {"depth": measured.depth, "candidates left by depth 1": measured.left}
