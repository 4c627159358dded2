"""Depth of a Sudoku: the level of trial and error that it needs if assumptions are checked only by singles.

    0  naked and hidden singles solve it
    1  candidates are removed whose assumption leads to a contradiction by singles, until none is left; this solves it
    2  as 1, but an assumption may itself use depth 1
    3  more is needed

A refuted candidate stays refuted when others are removed, so the order of elimination does not matter. The levels are
Berthier's T&E(0), T&E(1) and T&E(2), https://arxiv.org/abs/1304.1628.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from datasets_gen.compiled import compiled
from datasets_gen.sudoku.solver import BITS, deduce, lone, masks, size_of
from datasets_gen.sudoku.tables import geometry

MOST = 20_000  # puzzles whose depth is a statistic: 1.5 ms each


@compiled
def _keep(mask, cell, candidates, stack, table):
    """Keep only some candidates of a cell, and deduce by singles; returns False on a contradiction."""
    mask[cell] = candidates
    stack[0] = cell
    return candidates != 0 and deduce(mask, stack, 1 if BITS[candidates] == 1 else 0, table[1][cell], table)


@compiled
def _eliminate(mask, true, deepest, stack, table):
    """Remove from mask (S,) the candidates that trial and error of level `deepest` refutes; never those of `true` (S,).

    states[k] is the board after k assumptions. Its candidates are tried in turn, each in a copy of the board one level
    deeper, until a full pass refutes none. The code is not recursive, because numba crashes on cached recursion.
    """
    size = table[0].shape[1]
    count, level = len(mask) * size, 0
    states = np.empty((deepest + 1, len(mask)), np.uint16)
    at, quiet = np.zeros(deepest, np.int64), np.zeros(deepest, np.int64)
    states[0] = mask
    while True:
        if quiet[level] == count:  # the assumption is not refuted
            level -= 1
            if level < 0:
                mask[:] = states[0]
                return
            continue
        quiet[level] += 1
        at[level] = at[level] + 1 if at[level] + 1 < count else 0
        cell, bit = at[level] // size, np.uint16(1 << at[level] % size)
        here = states[level, cell]
        if here & bit == 0 or here == bit or (level == 0 and true[cell] == bit):
            continue
        states[level + 1] = states[level]
        if _keep(states[level + 1], cell, bit, stack, table):
            if level + 1 < deepest:
                level += 1
                quiet[level] = 0
            continue
        while not _keep(states[level], cell, states[level, cell] & ~bit, stack, table):
            level -= 1  # no candidate is left: the assumption is refuted
            cell, bit = at[level] // size, np.uint16(1 << at[level] % size)
        quiet[level] = 0


@compiled
def _candidates(mask):
    """Count the candidates of the open cells."""
    return BITS[mask[mask & (mask - 1) != 0]].sum()


@compiled
def _measure_all(boards, solutions, table):
    """Return (N, 2): the depth of N boards (N, S), and the number of candidates after depth 1."""
    results, stack = np.zeros((len(boards), 2), np.int64), np.empty(boards.shape[1], np.int64)
    size = table[0].shape[1]
    for n in range(len(boards)):
        mask, true = masks(boards[n], size), masks(solutions[n], size)
        deduce(mask, stack, lone(mask, stack), (1 << len(table[0])) - 1, table)
        while _candidates(mask) and results[n, 0] < 3:
            results[n, 0] += 1
            if results[n, 0] < 3:
                _eliminate(mask, true, results[n, 0], stack, table)
            if results[n, 0] == 1:
                results[n, 1] = _candidates(mask)
    return results


class Depths(NamedTuple):
    """The difficulty of N puzzles with one solution each."""

    depth: np.ndarray  # (N,) 0 to 3
    left: np.ndarray  # (N,) candidates of the cells that are open after depth 1


def depths(boards: np.ndarray, solutions: np.ndarray) -> Depths:
    """Return the depths of boards (N, S) of digits, 0 in an open cell, with their only solutions (N, S)."""
    tables = geometry(size_of(boards))
    singles = tables._replace(segments=tables.segments[:0])  # without locked candidates
    depth, left = _measure_all(*(np.ascontiguousarray(each, np.uint8) for each in (boards, solutions)), singles).T
    return Depths(depth.astype(np.int8), left.astype(np.int16))


def statistics(boards: np.ndarray, solutions: np.ndarray) -> dict[str, np.ndarray]:
    """Return the statistics that `show` prints and evaluations group by; none for a set of more than `MOST`."""
    if len(boards) > MOST:
        return {}
    measured = depths(boards, solutions)
    return {"depth": measured.depth, "candidates left by depth 1": measured.left}
