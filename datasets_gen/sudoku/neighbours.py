"""Neighbours of a Sudoku: one clue away, others in its place. (ours)"""

from __future__ import annotations

import numpy as np

from datasets_gen.sudoku.branching import completions, minimise, the_solution
from datasets_gen.sudoku.solver import a_solution

WORK = 800  # guesses after which the search for a last clue is given up


def take_from_a_solution(board: np.ndarray, question: np.ndarray, rng: np.random.Generator) -> None:
    """Give an open cell of `board` (S,), in place, its digit in a random solution, but no clue of the question."""
    solution = a_solution(board, rng)
    cells = np.flatnonzero((board == 0) & (solution != question))
    cell = cells[int(rng.random() * len(cells))]
    board[cell] = solution[cell]


def neighbour(question: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray] | None:
    """A minimal puzzle near a minimal one (S,), and its solution (S,); None if no single last clue exists.

    One clue is removed, another cell takes its digit in a random solution, and a last clue leaves one solution; clues
    that are no longer needed are removed. The result may have the same solution, or be the same puzzle.
    """
    clues = np.flatnonzero(question)
    board = question.copy()
    board[clues[int(rng.random() * len(clues))]] = 0
    take_from_a_solution(board, question, rng)
    last = completions(board, WORK)
    if len(last) == 0:
        return None
    cell, digit = last[int(rng.random() * len(last))]
    board[cell] = digit
    answer = the_solution(board)
    minimise(board, answer, rng.random(len(board)).argsort(), 0)
    return board, answer
