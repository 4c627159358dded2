"""A compiled Sudoku solver: finds and counts solutions.

Every cell holds a mask of the digits still possible there. Naked singles, hidden singles and locked
candidates are drawn to a fixpoint; then a cell is guessed, one with the fewest candidates and the most open
neighbours that share them; if the guess fails, the digit is struck out and the deductions continue.
Boards are (S,) uint8 of digits 0..n, 0 blank. In the compiled functions, index loops instead of loops over
array rows, and unsigned tables, are what makes the code three times as fast.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from datasets_gen.compiled import compiled
from datasets_gen.sudoku.tables import BOXES, geometry

BITS = np.bitwise_count(np.arange(1 << max(BOXES), dtype=np.uint16))  # digits in a mask
PAIR_WEIGHT = 4  # how much more a neighbour with two candidates counts than one with more


@compiled
def _fix(mask, cell, new, stack, fresh):
    """Write a smaller mask, and note the cell if one digit is left; returns `fresh`."""
    mask[cell] = new
    if new & (new - 1) == 0:
        stack[fresh] = cell
        fresh += 1
    return fresh


@compiled
def lone(mask, stack):
    """List every cell with one digit left; return their number."""
    fresh = 0
    for cell in range(len(mask)):
        if mask[cell] & (mask[cell] - 1) == 0:
            stack[fresh] = cell
            fresh += 1
    return fresh


@compiled
def deduce(mask, stack, fresh, dirty, table):
    """Draw every single and locked candidate; False if a contradiction shows. Without `segments`: only singles.

    mask (S,) uint16 changes in place; stack[:fresh] are cells just fixed; dirty has a bit for every unit to
    scan.
    """
    units, units_of, peers, segments, line_rest, box_rest = table
    size = units.shape[1]
    while True:
        while fresh:
            fresh -= 1
            cell = stack[fresh]
            bit = mask[cell]
            for k in range(peers.shape[1]):
                peer = peers[cell, k]
                if mask[peer] & bit:
                    if mask[peer] == bit:
                        return False
                    fresh = _fix(mask, peer, mask[peer] ^ bit, stack, fresh)
                    dirty |= units_of[peer]
        for unit in range(3 * size):
            if not dirty >> unit & 1:
                continue
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
            if once == 0:
                continue
            for k in range(size):
                cell = units[unit, k]
                hidden = mask[cell] & once
                if hidden:
                    if hidden & (hidden - 1):
                        return False
                    fresh = _fix(mask, cell, hidden, stack, fresh)
                    dirty |= units_of[cell]
            break
        if fresh or dirty:
            continue
        for k in range(len(segments)):
            shared, line, box = 0, 0, 0
            for j in range(segments.shape[1]):
                shared |= mask[segments[k, j]]
            if shared & (shared - 1) == 0:
                continue
            for j in range(line_rest.shape[1]):
                line |= mask[line_rest[k, j]]
                box |= mask[box_rest[k, j]]
            for side in range(2):
                struck = shared & ~box & line if side == 0 else shared & ~line & box
                if struck == 0:
                    continue
                for j in range(line_rest.shape[1]):
                    cell = line_rest[k, j] if side == 0 else box_rest[k, j]
                    if mask[cell] & struck:
                        if mask[cell] & ~struck == 0:
                            return False
                        fresh = _fix(mask, cell, mask[cell] & ~struck, stack, fresh)
                        dirty |= units_of[cell]
        if not fresh and not dirty:
            return True


@compiled
def _choose(mask, order, peers):
    """Return the cell to guess, or -1 if none is open; ties go to the first in `order`."""
    fewest = 99
    for k in range(len(order)):
        count = BITS[mask[order[k]]]
        if 1 < count < fewest:
            fewest = count
    best, most = -1, -1
    for k in range(len(order)):
        cell = order[k]
        if BITS[mask[cell]] != fewest:
            continue
        score = 0
        for j in range(peers.shape[1]):
            other = mask[peers[cell, j]]
            if other & mask[cell]:
                score += PAIR_WEIGHT if BITS[other] == 2 else BITS[other] > 2
        if score > most:
            best, most = cell, score
    return best


@compiled
def _search(mask, limit, order, rank, solutions, table):
    """Return the number of solutions, up to `limit`; write the first R to solutions (R, S).

    order (S,) breaks ties between cells, rank (S, n) between the digits of a cell.
    """
    units_of, peers = table[1], table[2]
    cells, size = rank.shape
    saved = np.empty((cells, cells), np.uint16)
    guessed = np.empty(cells, np.int64)
    stack = np.empty(cells, np.int64)
    depth, found, fresh = 0, 0, lone(mask, stack)
    dirty = (1 << (3 * size)) - 1
    while True:
        best = -1
        if deduce(mask, stack, fresh, dirty, table):
            best = _choose(mask, order, peers)
            if best < 0:
                if found < len(solutions):
                    for cell in range(cells):
                        solutions[found, cell] = BITS[mask[cell] - 1] + 1
                found += 1
                if found == limit:
                    return found
        fresh = 0
        if best >= 0:
            bit, lowest = 0, size
            for digit in range(size):
                if mask[best] >> digit & 1 and rank[best, digit] < lowest:
                    bit, lowest = 1 << digit, rank[best, digit]
            saved[depth] = mask
            saved[depth, best] ^= bit
            guessed[depth] = best
            depth += 1
            mask[best] = bit
            stack[0] = best
            fresh = 1
        elif depth == 0:
            return found
        else:
            depth -= 1
            mask[:] = saved[depth]
            best = guessed[depth]
            if mask[best] & (mask[best] - 1) == 0:
                stack[0] = best
                fresh = 1
        dirty = np.int64(units_of[best])


@compiled
def masks(board, size):
    """Return the candidates of every cell (S,) of a board."""
    mask = np.empty(len(board), np.uint16)
    for cell in range(len(board)):
        mask[cell] = 1 << (board[cell] - 1) if board[cell] else (1 << size) - 1
    return mask


@compiled
def _solve_all(boards, limit, order, rank, table):
    """Return solutions (N, S) and the number that was found (N,)."""
    solutions = np.zeros(boards.shape, np.uint8)
    found = np.empty(len(boards), np.int64)
    for i in range(len(boards)):
        found[i] = _search(masks(boards[i], rank.shape[1]), limit, order, rank, solutions[i : i + 1], table)
    return solutions, found


class Solved(NamedTuple):
    """The solver's answer to N boards of S cells."""

    solutions: np.ndarray  # (N, S) uint8  the first solution found, 0 if none exists
    counts: np.ndarray  # (N,)  solutions found, at most the limit


def solve(boards: np.ndarray, *, limit: int = 2) -> Solved:
    """Solve boards (N, S) of digits 0..n, looking for up to `limit` solutions of each."""
    size = size_of(boards)
    order, rank = np.arange(size * size), np.tile(np.arange(size), (size * size, 1))
    return Solved(*_solve_all(np.ascontiguousarray(boards, np.uint8), limit, order, rank, geometry(size)))


def full_grid(size: int, rng: np.random.Generator) -> np.ndarray:
    """Return a random full board (S,): a random first row, completed in a random order."""
    blank = np.zeros(size * size, np.uint8)
    blank[:size] = rng.random(size).argsort() + 1
    return a_solution(blank, rng, geometry(size))


@compiled
def a_solution(board, rng, table):
    """Return a solution (S,) of a board that has one, found in a random order."""
    size, solution = table[0].shape[1], np.zeros((1, len(board)), np.uint8)
    order, rank = shuffled_order(rng, size)
    _search(masks(board, size), 1, order, rank, solution, table)
    return solution[0]


@compiled
def shuffled_order(rng, size):
    """Return a random order (S,) of the cells, and random ranks (S, n) of the digits of each cell."""
    rank = np.empty((size * size, size), np.int64)
    order = rng.random(size * size).argsort()
    for cell in range(size * size):  # sorted by insertion: argsort of nine numbers is ten times as slow
        drawn = rng.random(size)
        for digit in range(size):
            place = digit
            while place and drawn[rank[cell, place - 1]] > drawn[digit]:
                rank[cell, place] = rank[cell, place - 1]
                place -= 1
            rank[cell, place] = digit
    return order, rank


def size_of(boards: np.ndarray) -> int:
    """Return n of boards (..., n²)."""
    return round(boards.shape[-1] ** 0.5)


@compiled
def _thin(board, order, fewest, rank, table):
    """Blank the cells of `board` (S,) in place, in the given order, while one solution remains, to `fewest` clues."""
    clues, nowhere = (board > 0).sum(), np.empty((0, len(board)), np.uint8)
    for cell in order:
        digit = board[cell]
        if digit and clues > fewest:
            board[cell] = 0
            if _search(masks(board, rank.shape[1]), 2, order, rank, nowhere, table) > 1:
                board[cell] = digit
            else:
                clues -= 1


def thin(board: np.ndarray, rng: np.random.Generator, *, clues: int = 0) -> np.ndarray:
    """Take clues (S,) away in random order while one solution remains.

    Stops at `clues` clues; with 0 the result is minimal: no clue can go.
    """
    thinned, size = board.copy(), size_of(board)
    order, rank = shuffled_order(rng, size)
    _thin(thinned, order, clues, rank, geometry(size))
    return thinned
