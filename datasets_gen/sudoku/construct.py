"""Boards made from boards: full grids, puzzles thinned out of them, and a puzzle's neighbours."""

from __future__ import annotations

import numpy as np

from datasets_gen.sudoku.geometry import geometry
from datasets_gen.sudoku.solver import complete_board, shuffled_orders, size_of, solve_many, thin_board


def full_grid(size: int, rng: np.random.Generator) -> np.ndarray:
    """A random full board (S,): a random first row, completed in a random order."""
    blank = np.zeros(size * size, np.uint8)
    blank[:size] = rng.random(size).argsort() + 1
    return _any_solution(blank, rng)


def thin(board: np.ndarray, solution: np.ndarray, rng: np.random.Generator, *, clues: int = 0) -> np.ndarray:
    """Take clues away in random order while the solution stays the only one.

    board, solution: (S,) digits. Stops at `clues` clues; with 0 the result is minimal: no clue can go.
    """
    size = size_of(board[None])
    orders, ranks = shuffled_orders(rng, 1, size)
    thinned = board.copy()
    thin_board(thinned, solution, orders[0], ranks[0], clues, geometry(size))
    return thinned


def neighbour(board: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A minimal puzzle next to a puzzle, and its solution: the {-1+m} neighbourhood.

    One clue goes; of the solutions that this allows one is taken at random; clues of it are added until no other
    is left; then every clue that is not needed goes.
    """
    size = size_of(board[None])
    clues = np.flatnonzero(board)
    child = board.copy()
    child[clues[int(rng.random() * len(clues))]] = 0
    solution = _any_solution(child, rng)
    orders, ranks = shuffled_orders(rng, 2, size)
    complete_board(child, solution, orders[0], ranks[0], geometry(size))
    thin_board(child, solution, orders[1], ranks[1], 0, geometry(size))
    return child, solution


def _any_solution(board: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    size = size_of(board[None])
    orders, ranks = shuffled_orders(rng, 1, size)
    return solve_many(board[None], 1, orders, ranks, geometry(size))[0][0]
