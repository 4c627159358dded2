"""A compiled Sudoku solver: finds, counts, rates and thins out.

Every cell holds a mask of the digits still possible there. Naked singles, hidden singles and locked
candidates are drawn to a fixpoint; then a cell with the fewest candidates is guessed, and where the guess
fails the digit is struck out and the deductions go on. Boards are (S,) uint8 of digits 0..n, 0 blank.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from datasets_gen.compiled import compiled
from datasets_gen.sudoku.geometry import geometry


@compiled
def _deduce(mask, stack, fresh, dirty, table):
    """Draw every single and locked candidate; False where a contradiction shows.

    mask (S,) uint16 changes in place; stack[:fresh] are cells just fixed; dirty has a bit for every unit
    to scan.
    """
    units, unit_of, peers, segments, line_rest, box_rest = table
    size = units.shape[1]
    full = (1 << size) - 1
    while True:
        while fresh:
            fresh -= 1
            cell = stack[fresh]
            bit = mask[cell]
            for peer in peers[cell]:
                old = mask[peer]
                if old & bit:
                    new = old ^ bit
                    if new == 0:
                        return False
                    mask[peer] = new
                    if new & (new - 1) == 0:
                        stack[fresh] = peer
                        fresh += 1
                    dirty |= (1 << unit_of[peer, 0]) | (1 << unit_of[peer, 1]) | (1 << unit_of[peer, 2])
        for unit in range(3 * size):
            if not dirty >> unit & 1:
                continue
            dirty ^= 1 << unit
            once, twice = 0, 0
            for cell in units[unit]:
                twice |= once & mask[cell]
                once |= mask[cell]
            if once != full:
                return False
            once &= ~twice
            for cell in units[unit]:
                hidden = mask[cell] & once
                if hidden and hidden != mask[cell]:
                    if hidden & (hidden - 1):
                        return False
                    mask[cell] = hidden
                    stack[fresh] = cell
                    fresh += 1
                    dirty |= (1 << unit_of[cell, 0]) | (1 << unit_of[cell, 1]) | (1 << unit_of[cell, 2])
            if fresh:
                break
        if fresh or dirty:
            continue
        for k in range(len(segments)):
            shared, line, box = 0, 0, 0
            for cell in segments[k]:
                shared |= mask[cell]
            for cell in line_rest[k]:
                line |= mask[cell]
            for cell in box_rest[k]:
                box |= mask[cell]
            for struck, rest in ((shared & ~box & line, line_rest[k]), (shared & ~line & box, box_rest[k])):
                if struck == 0:
                    continue
                for cell in rest:
                    old = mask[cell]
                    if old & struck:
                        new = old & ~struck
                        if new == 0:
                            return False
                        mask[cell] = new
                        if new & (new - 1) == 0:
                            stack[fresh] = cell
                            fresh += 1
                        dirty |= (1 << unit_of[cell, 0]) | (1 << unit_of[cell, 1]) | (1 << unit_of[cell, 2])
        if not fresh and not dirty:
            return True


@compiled
def _search(mask, limit, order, rank, solution, table):
    """(solutions found up to `limit`, guesses made); the first solution's digits are left in `solution`.

    order (S,) breaks ties between cells, rank (S, n) between the digits of a cell.
    """
    unit_of = table[1]
    cells, size = rank.shape
    saved = np.empty((cells, cells), np.uint16)
    guessed = np.empty(cells, np.int64)
    stack = np.empty(cells, np.int64)
    depth, found, guesses, fresh = 0, 0, 0, 0
    for cell in range(cells):
        if mask[cell] & (mask[cell] - 1) == 0:
            stack[fresh] = cell
            fresh += 1
    dirty = (1 << (3 * size)) - 1
    while True:
        best, fewest = -1, size + 1
        if _deduce(mask, stack, fresh, dirty, table):
            for cell in order:
                left, count = mask[cell], 0
                while left:
                    left &= left - 1
                    count += 1
                if 1 < count < fewest:
                    best, fewest = cell, count
                    if count == 2:
                        break
            if best < 0:
                if found == 0:
                    for cell in range(cells):
                        digit = 0
                        while mask[cell] >> digit:
                            digit += 1
                        solution[cell] = digit
                found += 1
                if found == limit:
                    return found, guesses
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
            guesses += 1
            mask[best] = bit
            stack[0] = best
            fresh = 1
        elif depth == 0:
            return found, guesses
        else:
            depth -= 1
            mask[:] = saved[depth]
            best = guessed[depth]
            if mask[best] & (mask[best] - 1) == 0:
                stack[0] = best
                fresh = 1
        dirty = (1 << unit_of[best, 0]) | (1 << unit_of[best, 1]) | (1 << unit_of[best, 2])


@compiled
def _masks(board, size):
    mask = np.empty(len(board), np.uint16)
    for cell in range(len(board)):
        mask[cell] = 1 << (board[cell] - 1) if board[cell] else (1 << size) - 1
    return mask


@compiled
def _solve_many(boards, limit, orders, ranks, table):
    count, cells = boards.shape
    size = ranks.shape[2]
    solutions = np.zeros((count, cells), np.uint8)
    found = np.empty(count, np.int64)
    guesses = np.empty(count, np.int64)
    for i in range(count):
        j = i % len(orders)
        found[i], guesses[i] = _search(
            _masks(boards[i], size), limit, orders[j], ranks[j], solutions[i], table
        )
    return solutions, found, guesses


@compiled
def _thin(board, solution, order, rank, target, table):
    """Blank the cells of `board` in the given order wherever one solution remains; stop at `target` clues."""
    cells, size = rank.shape
    spare = np.empty(cells, np.uint8)
    clues = 0
    for cell in range(cells):
        clues += board[cell] != 0
    for cell in order:
        if clues <= target:
            break
        if board[cell] == 0:
            continue
        mask = _masks(board, size)
        mask[cell] = ((1 << size) - 1) ^ (1 << (solution[cell] - 1))  # another digit here: another solution?
        if _search(mask, 1, order, rank, spare, table)[0] == 0:
            board[cell] = 0
            clues -= 1
    return clues


class Solved(NamedTuple):
    """What the solver says of N boards of S cells."""

    solutions: np.ndarray  # (N, S) uint8  the first solution found, 0 where none exists
    counts: np.ndarray  # (N,)  solutions found, at most the limit
    guesses: np.ndarray  # (N,)  guesses made until then


def solve(boards: np.ndarray, *, limit: int = 2) -> Solved:
    """Solve boards (N, S) of digits 0..n, looking for up to `limit` solutions of each."""
    size = _size(boards)
    order = np.arange(size * size)[None]
    rank = np.tile(np.arange(size), (1, size * size, 1))
    return Solved(*_solve_many(np.ascontiguousarray(boards, np.uint8), limit, order, rank, geometry(size)))


def rate(boards: np.ndarray, *, shuffles: int = 8, limit: int = 1) -> np.ndarray:
    """Mean guesses (N,) over `shuffles` random orders of cells and digits, the same orders for every board.

    With limit=1 a guess counts until the solution is found (the published rating does, with one shuffle);
    with limit=2 all guesses of the tree that proves it unique. One shuffle of a hard 9×9 board varies by ±18.
    """
    size = _size(boards)
    orders, ranks = shuffled_orders(np.random.Generator(np.random.PCG64(0)), shuffles, size)
    repeated = np.repeat(np.ascontiguousarray(boards, np.uint8), shuffles, axis=0)
    guesses = _solve_many(repeated, limit, orders, ranks, geometry(size))[2]
    return guesses.reshape(-1, shuffles).mean(1)


def shuffled_orders(rng: np.random.Generator, count: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Orders (count, S) of the cells and ranks (count, S, n) of their digits, drawn at random."""
    cells = size * size
    orders = rng.random((count, cells)).argsort(1)
    return orders, rng.random((count, cells, size)).argsort(2)


def full_grid(size: int, rng: np.random.Generator) -> np.ndarray:
    """A random full board (S,): a random first row, completed in a random order."""
    orders, ranks = shuffled_orders(rng, 1, size)
    blank = np.zeros((1, size * size), np.uint8)
    blank[0, :size] = rng.random(size).argsort() + 1
    return _solve_many(blank, 1, orders, ranks, geometry(size))[0][0]


def thin(board: np.ndarray, solution: np.ndarray, rng: np.random.Generator, *, clues: int = 0) -> np.ndarray:
    """Take clues away in random order while the solution stays the only one.

    board, solution: (S,) digits. Stops at `clues` clues; with 0 the result is minimal: no clue can go.
    """
    size = _size(board[None])
    orders, ranks = shuffled_orders(rng, 1, size)
    thinned = board.copy()
    _thin(thinned, solution, orders[0], ranks[0], clues, geometry(size))
    return thinned


def _size(boards: np.ndarray) -> int:
    size = round(boards.shape[1] ** 0.5)
    assert size * size == boards.shape[1], boards.shape
    return size
