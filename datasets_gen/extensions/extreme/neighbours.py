"""Neighbours of a 9×9 Sudoku: a few clues differ. Walks over neighbours lower the number of clues. (ours)"""

from __future__ import annotations

import numpy as np

from datasets_gen.compiled import compiled
from datasets_gen.extensions.extreme.exocet import holds_exocet
from datasets_gen.extensions.extreme.solver import NO_CAP, endurance, minimise, search
from datasets_gen.sudoku.generate import Puzzle
from datasets_gen.sudoku.signature import mix
from datasets_gen.sudoku.solver import a_solution, full_grid, thin
from datasets_gen.sudoku.tables import geometry

WORK = 800  # guesses after which the search for a last clue is given up
FEW = 19  # clues; random minimal puzzles have 21 to 28, and no puzzle has fewer than 17
WALK = 1_000  # neighbours of a walk


@compiled
def _place(board, clues, rng, exocet):
    """Place a random one of the clues (K, 2) of cell and digit on a board (81,); False if there is none.

    exocet: only a clue with which the board holds an exocet.
    """
    if len(clues) == 0:
        return False
    if not exocet:
        cell, digit = clues[int(rng.random() * len(clues))]
        board[cell] = digit
        return True
    for cell, digit in clues[rng.random(len(clues)).argsort()]:
        board[cell] = digit
        if holds_exocet(board):
            return True
        board[cell] = 0
    return False


@compiled
def _neighbour(question, rng, exocet, table):
    """Return whether there is a neighbour, the neighbour and its solution, as `neighbour` describes them."""
    board, clues = question.copy(), np.flatnonzero(question)
    board[clues[int(rng.random() * len(clues))]] = 0
    solution = a_solution(board, rng, table)
    cells = np.flatnonzero((board == 0) & (solution != question))
    added = np.empty((len(cells), 2), np.int64)
    added[:, 0], added[:, 1] = cells, solution[cells]
    return _place(board, added, rng, exocet) and _complete(board, solution, rng, exocet), board, solution


@compiled
def _complete(board, answer, rng, exocet):
    """Make a board (81,) minimal, in place, after a last clue that leaves one solution; False if there is none.

    Such a clue is a digit that stands in its cell in exactly one solution. The solution is written to `answer`.
    """
    seen, clues, count = np.zeros((2, 9, 3), np.uint32), np.empty((729, 2), np.int64), 0
    if search(board, NO_CAP, WORK, seen)[1] >= WORK:
        return False
    for cell in range(81):
        for digit in range(9):
            if (seen[0, digit, cell // 27] & ~seen[1, digit, cell // 27]) >> cell % 27 & 1:
                clues[count, 0], clues[count, 1] = cell, digit + 1
                count += 1
    if not _place(board, clues[:count], rng, exocet):
        return False
    seen[:] = 0
    search(board, 1, NO_CAP, seen)
    for cell in range(81):
        for digit in range(9):
            if seen[0, digit, cell // 27] >> cell % 27 & 1:
                answer[cell] = digit + 1
    minimise(board, answer, rng.random(81).argsort())
    return True


def neighbour(question: np.ndarray, rng: np.random.Generator) -> Puzzle | None:
    """Return a minimal puzzle near a minimal one (81,), and its solution (81,); None if this draw leads to none.

    One clue is removed, another cell takes its digit in a random solution, and a last clue leaves one solution; clues
    that are no longer needed are removed. The result may be the same puzzle.
    """
    exists, board, answer = _neighbour(question, rng, False, geometry(9))
    return (board, answer) if exists else None


@compiled
def enduring_neighbour(parents, level, tries, rng, table):
    """Draw neighbours of random parents (P, 81) until one holds an exocet and has this endurance; at most `tries`.

    Returns the number of draws, `tries` + 1 if none of them did, the puzzle and its solution.
    """
    for drawn in range(1, tries + 1):
        exists, board, answer = _neighbour(parents[int(rng.random() * len(parents))], rng, True, table)
        if exists and holds_exocet(board) and endurance(board, answer) >= level:
            return drawn, board, answer
    return tries + 1, parents[0], parents[0]


def few_clues(count: int, rng: np.random.Generator) -> list[Puzzle]:
    """Return up to `count` minimal puzzles of one walk with at most `FEW` clues and inequivalent solutions.

    The walk starts from a random puzzle. Every other step removes two clues and adds one, until FEW are left; the other
    steps replace one. The number of clues never rises above the larger of FEW and the least so far.
    """
    question = thin(full_grid(9, rng), rng)
    found: dict[int, Puzzle] = {}
    for step in range(WALK):
        clues, board = np.flatnonzero(question), question.copy()
        board[clues[rng.random(len(clues)).argsort()[: 1 + (len(clues) > FEW and step % 2 == 0)]]] = 0
        answer = np.empty(81, np.uint8)
        if not _complete(board, answer, rng, False) or np.count_nonzero(board) > max(len(clues), FEW):
            continue
        question = board
        if np.count_nonzero(question) <= FEW:
            found.setdefault(int(solution_classes(answer[None])[0]), (board, answer))
            if len(found) == count:
                break
    return list(found.values())


def solution_classes(answers: np.ndarray) -> np.ndarray:
    """Return a class (N,) uint64 of each full grid (N, 81): equal for symmetric grids, hardly ever for others. (ours)

    Two lines define a permutation of the digits. Renamings and moves do not change the lengths of its cycles. The class
    depends on these lengths for every pair of rows and of columns, and on whether the two share a band.
    """
    grids, digits = answers.reshape(-1, 9, 9).astype(np.int64) - 1, np.arange(9)
    first, second = np.triu_indices(9, 1)
    together = (first // 3 == second // 3).astype(np.uint64)
    classes = np.zeros(len(answers), np.uint64)
    for lines in (grids, grids.swapaxes(1, 2)):
        follows = np.empty((len(lines), len(first), 9), np.int64)
        np.put_along_axis(follows, lines[:, first], lines[:, second], -1)
        lengths = np.zeros(follows.shape, np.uint64)  # of the cycle that holds each digit
        at = np.broadcast_to(digits, follows.shape)
        for length in range(1, 10):
            at = np.take_along_axis(follows, at, -1)
            lengths[(lengths == 0) & (at == digits)] = length
        classes += mix(mix(mix(lengths).sum(-1) + together).sum(-1))
    return classes
