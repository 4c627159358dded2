"""Neighbours of a 9×9 Sudoku: a few clues differ. Walks over neighbours lower the number of clues. (ours)"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from datasets_gen.extensions.extreme.solver import minimise, solutions
from datasets_gen.sudoku.generate import Puzzle
from datasets_gen.sudoku.signature import mix
from datasets_gen.sudoku.solver import a_solution, full_grid, thin

WORK = 800  # guesses after which the search for a last clue is given up
FEW = 19  # clues; random minimal puzzles have 21 to 28, and no puzzle has fewer than 17
WALK = 1_000  # neighbours of a walk

Place = Callable[[np.ndarray, np.ndarray, np.random.Generator], bool]


def place_any(board: np.ndarray, clues: np.ndarray, rng: np.random.Generator) -> bool:
    """Place a random one of the clues (K, 2) of cell and digit on a board (81,); False if there is none."""
    if len(clues) == 0:
        return False
    cell, digit = clues[int(rng.random() * len(clues))]
    board[cell] = digit
    return True


def neighbour(question: np.ndarray, rng: np.random.Generator, place: Place = place_any) -> Puzzle | None:
    """Return a minimal puzzle near a minimal one (81,), and its solution (81,); None if this draw leads to none.

    One clue is removed, another cell takes its digit in a random solution, and a last clue leaves one solution; clues
    that are no longer needed are removed. The result may be the same puzzle. `place` chooses the new clues.
    """
    clues = np.flatnonzero(question)
    board = question.copy()
    board[clues[int(rng.random() * len(clues))]] = 0
    solution = a_solution(board, rng)
    cells = np.flatnonzero((board == 0) & (solution != question))
    return _completed(board, rng, place) if place(board, np.stack([cells, solution[cells]], 1), rng) else None


def _completed(board: np.ndarray, rng: np.random.Generator, place: Place = place_any) -> Puzzle | None:
    """Return a board (81,) minimal, after a last clue that leaves one solution; None if there is none. In place.

    Such a clue is a digit that stands in its cell in exactly one solution.
    """
    (once, twice), complete = solutions(board, cap=WORK)
    if not complete or not place(board, np.argwhere(once & ~twice) + np.array([0, 1]), rng):
        return None
    answer = solutions(board, limit=1)[0][0].argmax(1).astype(np.uint8) + 1
    minimise(board, answer, rng.random(81).argsort())
    return board, answer


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
        child = _completed(board, rng)
        if child is None or np.count_nonzero(child[0]) > max(len(clues), FEW):
            continue
        question = child[0]
        if np.count_nonzero(question) <= FEW:
            found.setdefault(int(solution_classes(child[1][None])[0]), child)
            if len(found) == count:
                break
    return list(found.values())


def solution_classes(answers: np.ndarray) -> np.ndarray:
    """(N,) uint64 of full grids (N, 81): equal if a symmetry maps one to the other, hardly ever otherwise. (ours)

    Two lines are a permutation of the digits, whose cycles no renaming and no move changes. The
    class depends on the cycles of every pair of rows and of columns, and on whether the two share a band.
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
