"""The rating of a puzzle: guesses until its solution is found, under several rules of branching."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from datasets_gen.parallel import seeded
from datasets_gen.sudoku.branching import BAND, CELL, MIXED, NO_CAP, NOTHING, search
from datasets_gen.sudoku.solver import size_of
from datasets_gen.sudoku.tables import BOXES

RULES = (MIXED, BAND, CELL)  # the hardest first
SCALES = (0.4, 1.0, 1.0)  # what makes the rules' means equal on published puzzles that need 36 guesses of tdoku


class Shuffle(NamedTuple):
    """A symmetry of Sudoku, and what random branching starts from."""

    cells: np.ndarray  # (S,) where each cell of the shuffled board comes from
    digits: np.ndarray  # (n+1,) uint8 what becomes of blank and the digits
    seed: int


@cache
def shuffles(size: int, count: int) -> tuple[Shuffle, ...]:
    """Random symmetries of a board, the same at every call; a larger count begins with the same ones."""
    height, width = BOXES[size]
    rng = seeded(0, size)

    def lines(per_block: int) -> np.ndarray:
        blocks = rng.random(size // per_block).argsort()
        return np.concatenate([per_block * block + rng.random(per_block).argsort() for block in blocks])

    drawn = []
    for _ in range(count):
        cells = np.arange(size * size).reshape(size, size)[lines(height)][:, lines(width)]
        if rng.random() < 0.5 and height == width:
            cells = cells.T
        digits = np.concatenate([[0], rng.random(size).argsort() + 1])
        drawn.append(Shuffle(cells.reshape(-1), digits.astype(np.uint8), int(rng.random() * 2**62)))
    return tuple(drawn)


def guesses(board: np.ndarray, rule: int, shuffle: Shuffle, cap: int = NO_CAP) -> tuple[float, int]:
    """Guesses until the solution of a board (S,) is found, and how many of these are open at the solution.

    Which branch of a guess is tried first is left to chance: a guess of the full search tree counts 1/2, one that is
    open at the solution, its first branch being right, 1. In expectation one whose second branch was right would count
    1, too; there is about one such more on hard puzzles. cap: guesses of the tree at which the search is broken off.
    """
    _, tree, way = search(shuffle.digits[board[shuffle.cells]], rule, 2, cap, shuffle.seed, NOTHING)
    return (tree + way) / 2, way


def rule_guesses(boards: np.ndarray, *, count: int = 8) -> np.ndarray:
    """Mean guesses (N, 3) of boards (N, S) under each of `RULES` over `count` shuffles.

    One count depends on the luck of the order in which cells and digits are tried, which a shuffle changes; a mean over
    eight depends on the puzzle. Its rank correlation with the mean of eight tdoku counts is .91 (docs/data.md).
    """
    chosen = shuffles(size_of(boards), count)
    counts = [[[guesses(board, rule, each)[0] for each in chosen] for rule in RULES] for board in boards]
    return np.array(counts).reshape(len(boards), len(RULES), count).mean(2)


def combined(means: np.ndarray) -> np.ndarray:
    """Ratings (...) of mean guesses (..., 3): their harmonic mean after scaling, 0 where one is 0. (ours)

    A puzzle that is hard for one rule alone is not hard: the rating is below three times the least of them.
    """
    scaled = means * np.array(SCALES)
    with np.errstate(divide="ignore"):
        return len(RULES) / (1 / scaled).sum(-1)


def rate(boards: np.ndarray, *, count: int = 8) -> np.ndarray:
    """Ratings (N,) of boards (N, S), on the scale of Sudoku-Extreme."""
    return combined(rule_guesses(boards, count=count))
