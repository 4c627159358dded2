"""Boards made from boards: full grids, puzzles thinned out of them, and what can take the place of a clue."""

from __future__ import annotations

import numpy as np

from datasets_gen.sudoku.boards import BAND_OF, BIT_OF
from datasets_gen.sudoku.branching import BAND, NO_CAP, minimise, search
from datasets_gen.sudoku.geometry import geometry
from datasets_gen.sudoku.solver import shuffled_orders, size_of, solve_many


def full_grid(size: int, rng: np.random.Generator) -> np.ndarray:
    """A random full board (S,): a random first row, completed in a random order."""
    blank = np.zeros(size * size, np.uint8)
    blank[:size] = rng.random(size).argsort() + 1
    return a_solution(blank, rng)


def a_solution(board: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A solution (S,) of a board that has one, found in a random order."""
    size = size_of(board[None])
    orders, ranks = shuffled_orders(rng, 1, size)
    return solve_many(board[None], 1, orders, ranks, geometry(size))[0][0]


def the_solution(board: np.ndarray) -> np.ndarray:
    """The solution (S,) of a board that has exactly one."""
    size = size_of(board[None])
    seen = np.zeros((2, size, 3), np.uint32)
    search(board, BAND, 1, NO_CAP, 0, seen)
    return ((seen[0][:, BAND_OF[size, : size**2]] & BIT_OF[size, : size**2]) > 0).argmax(0).astype(np.uint8) + 1


def thin(board: np.ndarray, solution: np.ndarray, rng: np.random.Generator, *, clues: int = 0) -> np.ndarray:
    """Take clues away in random order while the solution stays the only one.

    board, solution: (S,) digits. Stops at `clues` clues; with 0 the result is minimal: no clue can go.
    """
    size = size_of(board[None])
    order = shuffled_orders(rng, 1, size)[0][0]
    thinned = board.copy()
    minimise(thinned, solution, order, clues)
    return thinned


def completions(board: np.ndarray, cap: int) -> np.ndarray:
    """Clues (K, 2) of cell and digit, each of which alone leaves one solution to a board (S,) that has several.

    These are the digits that stand in their cell in exactly one solution. Empty where the search for all solutions
    takes `cap` guesses.
    """
    size = size_of(board[None])
    seen = np.zeros((2, size, 3), np.uint32)
    if search(board, BAND, np.iinfo(np.int64).max, cap, 0, seen)[1] == cap:
        return np.empty((0, 2), np.int64)
    once = (seen[0] & ~seen[1])[:, BAND_OF[size, : size**2]] & BIT_OF[size, : size**2] > 0  # (n, S)
    return np.argwhere(once.T) + np.array([0, 1])
