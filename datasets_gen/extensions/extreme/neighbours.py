"""Neighbours of a Sudoku: a few clues differ. Walks over neighbours lower the number of clues. (ours)"""

from __future__ import annotations

import numpy as np

from datasets_gen.extensions.extreme.branching import completions, minimise, the_solution
from datasets_gen.extensions.extreme.classes import solution_classes
from datasets_gen.sudoku.solver import a_solution, full_grid, thin

WORK = 800  # guesses after which the search for a last clue is given up
FEW = 19  # clues; random minimal puzzles have 21 to 28, and no puzzle has fewer than 17
WALK = 1_000  # neighbours of a walk

Puzzle = tuple[np.ndarray, np.ndarray]  # a question (S,) of digits, 0 where open, and its solution


def neighbour(question: np.ndarray, rng: np.random.Generator) -> Puzzle | None:
    """A minimal puzzle near a minimal one (S,), and its solution (S,); None if no single last clue exists.

    One clue is removed, another cell takes its digit in a random solution, and a last clue leaves one solution; clues
    that are no longer needed are removed. The result may have the same solution, or be the same puzzle.
    """
    clues = np.flatnonzero(question)
    board = question.copy()
    board[clues[int(rng.random() * len(clues))]] = 0
    solution = a_solution(board, rng)
    cells = np.flatnonzero((board == 0) & (solution != question))
    cell = cells[int(rng.random() * len(cells))]
    board[cell] = solution[cell]
    return _completed(board, rng)


def _completed(board: np.ndarray, rng: np.random.Generator) -> Puzzle | None:
    """A board (S,) minimal, after a random last clue that leaves one solution; None if there is none. In place."""
    last = completions(board, WORK)
    if len(last) == 0:
        return None
    cell, digit = last[int(rng.random() * len(last))]
    board[cell] = digit
    answer = the_solution(board)
    minimise(board, answer, rng.random(len(board)).argsort(), 0)
    return board, answer


def of_few_clues(count: int, rng: np.random.Generator) -> list[Puzzle]:
    """Up to `count` minimal 9×9 puzzles of at most `FEW` clues, with solutions of different classes, from one walk.

    The walk starts from a random puzzle. Every other step removes two clues and adds one, until FEW are left; the other
    steps replace one. The number of clues never rises above the larger of FEW and the least so far.
    """
    answer = full_grid(9, rng)
    question = thin(answer, rng)
    found: dict[int, Puzzle] = {}
    for step in range(WALK):
        clues = np.flatnonzero(question)
        board = question.copy()
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
