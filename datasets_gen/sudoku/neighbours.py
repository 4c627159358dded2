"""Neighbours of a Sudoku: one clue away, others in its place. (ours)"""

from __future__ import annotations

import numpy as np

from datasets_gen.sudoku.branching import completions, minimise, the_solution
from datasets_gen.sudoku.solver import a_solution

WORK = 800  # guesses after which the search for a last clue is given up


def take_from_another_solution(board: np.ndarray, question: np.ndarray, rng: np.random.Generator) -> None:
    """Give an open cell of `board` (S,), in place, a digit that another solution has there than the question's."""
    solution = a_solution(board, rng)
    cells = np.flatnonzero((board == 0) & (solution != question))
    cell = cells[int(rng.random() * len(cells))]
    board[cell] = solution[cell]


def neighbour(question: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray] | None:
    """A minimal puzzle near a minimal one (S,), and its solution (S,); None where no single last clue exists.

    One clue goes, a cell takes the digit of another solution, a last clue leaves one solution; clues that are no
    longer needed go.
    """
    clues = np.flatnonzero(question)
    board = question.copy()
    board[clues[int(rng.random() * len(clues))]] = 0
    take_from_another_solution(board, question, rng)
    last = completions(board, WORK)
    if len(last) == 0:
        return None
    cell, digit = last[int(rng.random() * len(last))]
    board[cell] = digit
    answer = the_solution(board)
    minimise(board, answer, rng.random(len(board)).argsort(), 0)
    return board, answer
