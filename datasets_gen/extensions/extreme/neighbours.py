"""Neighbours of a 9×9 Sudoku: a few clues differ. Walks over neighbours lower the number of clues. (ours)"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from datasets_gen.extensions.extreme.solver import minimise, solutions
from datasets_gen.sudoku.generate import Puzzle
from datasets_gen.sudoku.solver import a_solution, full_grid, thin

WORK = 800  # guesses after which the search for a last clue is given up
FEW = 19  # clues; random minimal puzzles have 21 to 28, and no puzzle has fewer than 17
WALK = 1_000  # neighbours of a walk

Place = Callable[[np.ndarray, np.ndarray, np.random.Generator], bool]


def place_any(board: np.ndarray, clues: np.ndarray, rng: np.random.Generator) -> bool:
    """Place a random one of the clues (K, 2) of cell and digit on a board (81,); False where there is none."""
    if len(clues) == 0:
        return False
    cell, digit = clues[int(rng.random() * len(clues))]
    board[cell] = digit
    return True


def neighbour(question: np.ndarray, rng: np.random.Generator, place: Place = place_any) -> Puzzle | None:
    """A minimal puzzle near a minimal one (81,), and its solution (81,); None if this draw leads to none.

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
    """A board (81,) minimal, after a last clue that leaves one solution; None if there is none. In place.

    Such a clue is a digit that stands in its cell in exactly one solution.
    """
    (once, twice), complete = solutions(board, cap=WORK)
    if not complete or not place(board, np.argwhere(once & ~twice) + np.array([0, 1]), rng):
        return None
    answer = solutions(board, limit=1)[0][0].argmax(1).astype(np.uint8) + 1
    minimise(board, answer, rng.random(81).argsort())
    return board, answer


def of_few_clues(count: int, rng: np.random.Generator) -> list[Puzzle]:
    """Up to `count` minimal puzzles of at most `FEW` clues, with different solutions, from one walk.

    The walk starts from a random puzzle. Every other step removes two clues and adds one, until FEW are left; the other
    steps replace one. The number of clues never rises above the larger of FEW and the least so far.
    """
    question = thin(full_grid(9, rng), rng)
    found: dict[bytes, Puzzle] = {}
    for step in range(WALK):
        clues, board = np.flatnonzero(question), question.copy()
        board[clues[rng.random(len(clues)).argsort()[: 1 + (len(clues) > FEW and step % 2 == 0)]]] = 0
        child = _completed(board, rng)
        if child is None or np.count_nonzero(child[0]) > max(len(clues), FEW):
            continue
        question = child[0]
        if np.count_nonzero(question) <= FEW:
            found.setdefault(child[1].tobytes(), child)
            if len(found) == count:
                break
    return list(found.values())
