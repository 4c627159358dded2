"""Junior exocets, a pattern that more than half of the hardest published Sudokus hold, and puzzles made to hold one.

Two open cells that a line and a box share are the base. In each of the other two boxes of the band one cell off the
base's line is a target: together they take the two digits of the base. The base has three or four candidates, which
every target has too. The companion of a target, the cell of its column in the third line of the band, has none of them.
The cross-lines are the columns of the targets and of the base's third cell. Outside the band every base candidate is
covered there by two lines, or by one and a cross-line. So whatever the base holds, the targets hold. Candidates are
those that the clues alone leave. Columns may stand for lines everywhere. (Bird, JExocet compendium)
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from datasets_gen.compiled import compiled
from datasets_gen.extensions.extreme.branching import minimise
from datasets_gen.extensions.extreme.neighbours import Puzzle
from datasets_gen.sudoku.solver import full_grid
from datasets_gen.sudoku.tables import geometry

PEERS = geometry(9).peers


@compiled
def _candidates(board):
    """Bits (9, 9) of the digits that the clues leave to a cell; a clue has its own bit alone."""
    found = np.full(81, 511, np.int64)
    for cell in range(81):
        if board[cell]:
            found[cell] = np.int64(1) << (np.int64(board[cell]) - 1)
            continue
        for k in range(PEERS.shape[1]):
            if board[PEERS[cell, k]]:
                found[cell] &= ~(np.int64(1) << (np.int64(board[PEERS[cell, k]]) - 1))
    return found.reshape(9, 9)


@compiled
def _covered(candidates, band, base, first, second, third):
    """Is every base candidate covered outside the band, in three columns, by two lines, or by a line and a column?"""
    for digit in range(9):
        bit = np.int64(1) << digit
        if base & bit == 0:
            continue
        lines = np.zeros(3, np.int64)
        for row in range(9):
            if row // 3 != band:
                for k in range(3):
                    column = first if k == 0 else second if k == 1 else third
                    if candidates[row, column] & bit:
                        lines[k] |= np.int64(1) << row
        every = lines[0] | lines[1] | lines[2]
        every &= every - 1
        if every & (every - 1) == 0:
            continue
        pairs = (lines[1] | lines[2], lines[0] | lines[2], lines[0] | lines[1])
        if pairs[0] & (pairs[0] - 1) and pairs[1] & (pairs[1] - 1) and pairs[2] & (pairs[2] - 1):
            return False
    return True


@compiled
def _in_rows(grid, candidates):
    """Is there an exocet whose base lies in a row?"""
    for row in range(9):
        band = row // 3
        for third in range(9):
            box = third // 3
            left, right = 3 * box + (third + 1) % 3, 3 * box + (third + 2) % 3
            base = candidates[row, left] | candidates[row, right]
            few = base & (base - 1)
            few &= few - 1
            if grid[row, left] or grid[row, right] or few == 0:
                continue
            few &= few - 1
            if few & (few - 1):
                continue
            for turn in range(2):
                up, down = 3 * band + (row + 1 + turn) % 3, 3 * band + (row + 2 - turn) % 3
                for one in range(3 * ((box + 1) % 3), 3 * ((box + 1) % 3) + 3):
                    if grid[up, one] or candidates[down, one] & base or base & ~candidates[up, one]:
                        continue
                    for other in range(3 * ((box + 2) % 3), 3 * ((box + 2) % 3) + 3):
                        if grid[down, other] or candidates[up, other] & base or base & ~candidates[down, other]:
                            continue
                        if _covered(candidates, band, base, third, one, other):
                            return True
    return False


@compiled
def holds_exocet(board):
    """Does a 9×9 board (81,) hold a junior exocet?"""
    grid, candidates = board.reshape(9, 9), _candidates(board)
    return _in_rows(grid, candidates) or _in_rows(grid.T.copy(), candidates.T.copy())


def exocet_puzzle(rng: np.random.Generator) -> Puzzle:
    """A random puzzle that holds an exocet, with its solution; clues that the exocet needs may be more than enough."""
    while True:
        answer = full_grid(9, rng)
        for needed, hindering in _places(answer.reshape(9, 9), rng):
            question, order = answer.copy(), (rng.random(81) - hindering).argsort()
            minimise(question, answer, order[~needed[order]])
            if holds_exocet(question):
                return question, answer


def _places(grid: np.ndarray, rng: np.random.Generator) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """For every exocet that a full grid allows in its first row: (81,) clues it needs, (81,) clues that hinder it."""
    rows, columns = np.indices((9, 9))
    boxes = rows // 3 * 3 + columns // 3
    for up, down in ((1, 2), (2, 1)):
        for one, other in ((grid[0, 0], grid[0, 1]), (grid[0, 1], grid[0, 0])):
            first, second = np.flatnonzero(grid[up] == one)[0], np.flatnonzero(grid[down] == other)[0]
            if first // 3 != 1 or second // 3 != 2:
                continue
            third = (2, int(first), int(second))
            companions = {int(grid[down, first]), int(grid[up, second])}
            more = [
                int(digit)
                for digit in rng.permutation(9) + 1
                if digit not in {int(one), int(other), int(grid[0, 2]), *companions} and digit in grid[:3, third]
            ]
            if not more or companions & {int(one), int(other)}:
                continue
            base = [int(one), int(other), *more[: 1 + int(rng.random() * 2)]]
            clues = np.isin(columns, third) & (rows > 2) & ~np.isin(grid, base)
            clues[down, first] = clues[up, second] = True
            for digit in set(range(1, 10)) - set(base):  # the base sees every other digit
                clues |= (grid == digit) & ((rows == 0) if rng.random() < 0.5 else (boxes == 0))
            seen = np.zeros((9, 9), bool)
            for row, column in ((0, 0), (0, 1), (up, first), (down, second)):
                seen |= (rows == row) | (columns == column) | (boxes == boxes[row, column])
            yield clues.ravel(), (seen & np.isin(grid, base)).ravel()
