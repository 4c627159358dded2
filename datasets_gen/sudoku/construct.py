"""Boards made from boards: full grids, puzzles thinned out of them, and a puzzle's neighbours."""

from __future__ import annotations

import numpy as np

from datasets_gen.sudoku.geometry import geometry
from datasets_gen.sudoku.solver import complete_board, shuffled_orders, size_of, solve_many, thin_board


def full_grid(size: int, rng: np.random.Generator) -> np.ndarray:
    """A random full board (S,): a random first row, completed in a random order."""
    blank = np.zeros(size * size, np.uint8)
    blank[:size] = rng.random(size).argsort() + 1
    orders, ranks = shuffled_orders(rng, 1, size)
    return solve_many(blank[None], 1, orders, ranks, geometry(size))[0][0]


def thin(board: np.ndarray, solution: np.ndarray, rng: np.random.Generator, *, clues: int = 0) -> np.ndarray:
    """Take clues away in random order while the solution stays the only one.

    board, solution: (S,) digits. Stops at `clues` clues; with 0 the result is minimal: no clue can go.
    """
    size = size_of(board[None])
    orders, ranks = shuffled_orders(rng, 1, size)
    thinned = board.copy()
    thin_board(thinned, solution, orders[0], ranks[0], clues, geometry(size))
    return thinned


def neighbour(
    board: np.ndarray, rng: np.random.Generator, orders: np.ndarray, ranks: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """A minimal puzzle next to a puzzle, and its solution: the {-1+m} neighbourhood.

    One clue goes; of the solutions that this allows one is taken at random; clues of it are added until no other
    is left; then every clue that is not needed goes. orders, ranks: what `shuffled_orders` gave, to choose from.
    """
    size = size_of(board[None])
    clues = np.flatnonzero(board)
    child = board.copy()
    child[clues[int(rng.random() * len(clues))]] = 0
    at = int(rng.random() * len(orders))
    solution = solve_many(child[None], 1, orders[at : at + 1], ranks[at : at + 1], geometry(size))[0][0]
    at = int(rng.random() * len(orders))
    complete_board(child, solution, rng.random(len(child)).argsort(), ranks[at], geometry(size))
    thin_board(child, solution, rng.random(len(child)).argsort(), ranks[at], 0, geometry(size))
    return child, solution
