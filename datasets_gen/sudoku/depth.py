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
from datasets_gen.sudoku.tables import geometry

DEEPEST = 3  # stands for this depth and more


class Depths(NamedTuple):
    """Of N puzzles with one solution each."""

    depth: np.ndarray  # (N,) 0 to 3
    left: np.ndarray  # (N,) candidates of the cells that depth 1 leaves open


@compiled
def _singles(mask, stack, fresh, dirty, units, units_of, peers):
    """Draw naked and hidden singles; False where a contradiction shows.

    mask (S,) uint16 changes in place; stack[:fresh] are cells just fixed; dirty has a bit for every unit to scan.
    """
    size = units.shape[1]
    while True:
        while fresh:
            fresh -= 1
            cell = stack[fresh]
            bit = mask[cell]
            for k in range(peers.shape[1]):
                peer = peers[cell, k]
                if mask[peer] & bit:
                    mask[peer] ^= bit
                    if mask[peer] == 0:
                        return False
                    if mask[peer] & (mask[peer] - 1) == 0:
                        stack[fresh] = peer
                        fresh += 1
                    dirty |= units_of[peer]
        if dirty == 0:
            return True
        unit = 0
        while not dirty >> unit & 1:
            unit += 1
        dirty ^= 1 << unit
        once, twice, fixed = np.int64(0), np.int64(0), np.int64(0)
        for k in range(size):
            here = np.int64(mask[units[unit, k]])
            twice |= once & here
            once |= here
            if here & (here - 1) == 0:
                fixed |= here
        if once != (1 << size) - 1:
            return False
        once &= ~(twice | fixed)
        for k in range(size):
            cell = units[unit, k]
            hidden = mask[cell] & once
            if hidden:
                if hidden & (hidden - 1):
                    return False
                mask[cell] = hidden
                stack[fresh] = cell
                fresh += 1
                dirty |= units_of[cell]


@compiled
def _assume(mask, cell, bit, stack, units, units_of, peers):
    """Leave one candidate of a cell, and draw singles; False where a contradiction shows."""
    mask[cell] = bit
    stack[0] = cell
    return _singles(mask, stack, 1, units_of[cell], units, units_of, peers)


@compiled
def _strike(mask, cell, bit, stack, units, units_of, peers):
    """Strike a candidate out, and draw singles; False where a contradiction shows."""
    mask[cell] &= ~bit
    if mask[cell] == 0:
        return False
    stack[0] = cell
    fresh = 1 if mask[cell] & (mask[cell] - 1) == 0 else 0
    return _singles(mask, stack, fresh, units_of[cell], units, units_of, peers)


@compiled
def _exhaust(mask, true, scratch, stack, units, units_of, peers):
    """Strike out all that depth 1 refutes; False where a contradiction shows. true (S,): candidates not tested."""
    quiet, cell = 0, 0
    while quiet < len(mask):
        quiet += 1
        rest = mask[cell] & ~true[cell]
        while rest and mask[cell] & (mask[cell] - 1):
            bit = rest & (~rest + np.uint16(1))
            rest ^= bit
            scratch[:] = mask
            if not _assume(scratch, cell, bit, stack, units, units_of, peers):
                if not _strike(mask, cell, bit, stack, units, units_of, peers):
                    return False
                quiet = 0
                rest &= mask[cell]
        cell = cell + 1 if cell + 1 < len(mask) else 0
    return True


@compiled
def _candidates(mask):
    """Candidates of the open cells."""
    count = 0
    for cell in range(len(mask)):
        rest = mask[cell]
        if rest & (rest - 1):
            while rest:
                rest &= rest - np.uint16(1)
                count += 1
    return count


@compiled
def _measure(mask, true, units, units_of, peers):
    """(depth, candidates that depth 1 leaves). true (S,): the solution, none of whose candidates is ever refuted."""
    cells = len(mask)
    stack, one, two = np.empty(cells, np.int64), np.empty(cells, np.uint16), np.empty(cells, np.uint16)
    nothing = np.zeros(cells, np.uint16)
    fresh = 0
    for cell in range(cells):
        if mask[cell] & (mask[cell] - 1) == 0:
            stack[fresh] = cell
            fresh += 1
    _singles(mask, stack, fresh, (1 << len(units)) - 1, units, units_of, peers)
    if _candidates(mask) == 0:
        return 0, 0
    _exhaust(mask, true, one, stack, units, units_of, peers)
    left = _candidates(mask)
    if left == 0:
        return 1, 0
    quiet, cell = 0, 0
    while quiet < cells:
        quiet += 1
        rest = mask[cell] & ~true[cell]
        while rest and mask[cell] & (mask[cell] - 1):
            bit = rest & (~rest + np.uint16(1))
            rest ^= bit
            one[:] = mask
            if _assume(one, cell, bit, stack, units, units_of, peers) and _exhaust(
                one, nothing, two, stack, units, units_of, peers
            ):
                continue
            _strike(mask, cell, bit, stack, units, units_of, peers)
            _exhaust(mask, true, one, stack, units, units_of, peers)
            if _candidates(mask) == 0:
                return 2, left
            quiet = 0
            rest &= mask[cell]
        cell = cell + 1 if cell + 1 < cells else 0
    return 3, left


@compiled
def _measure_all(boards, solutions, units, units_of, peers):
    size = units.shape[1]
    found = np.empty((len(boards), 2), np.int64)
    mask = np.empty(boards.shape[1], np.uint16)
    for n in range(len(boards)):
        for cell in range(boards.shape[1]):
            mask[cell] = 1 << (boards[n, cell] - 1) if boards[n, cell] else (1 << size) - 1
        found[n] = _measure(mask, solutions[n], units, units_of, peers)
    return found


def depths(boards: np.ndarray, solutions: np.ndarray) -> Depths:
    """Depths of boards (N, S) of digits, 0 where a cell is open, whose only solutions (N, S) are known."""
    tables = geometry(round(boards.shape[1] ** 0.5))
    true = (1 << (solutions.astype(np.int64) - 1)).astype(np.uint16)
    found = _measure_all(np.ascontiguousarray(boards, np.uint8), true, tables.units, tables.units_of, tables.peers)
    return Depths(found[:, 0].astype(np.int8), found[:, 1].astype(np.int16))
