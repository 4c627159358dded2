"""How many guesses a 9×9 puzzle needs: `--mix extreme` picks its easy puzzles and the parents of deep ones by it."""

from __future__ import annotations

from functools import cache

import numpy as np

from datasets_gen.extensions.extreme.branching import BAND, CELL, MIXED, NO_CAP, NOTHING, search
from datasets_gen.parallel import seeded

RULES = (MIXED, BAND, CELL)
SCALES = (0.4, 1.0, 1.0)  # what makes the rules' means equal on hard published puzzles
SHUFFLES = 8


@cache
def shuffles() -> list[tuple[np.ndarray, np.ndarray, int]]:
    """Random symmetries of 9×9 Sudoku, the same at every call.

    Where each cell of the shuffled board comes from (81,), what becomes of blank and the digits (10,), and a seed.
    """
    rng = seeded(0, 9)

    def lines() -> np.ndarray:
        return np.concatenate([3 * band + rng.random(3).argsort() for band in rng.random(3).argsort()])

    drawn = []
    for _ in range(SHUFFLES):
        cells = np.arange(81).reshape(9, 9)[lines()][:, lines()]
        if rng.random() < 0.5:
            cells = cells.T
        digits = np.concatenate([[0], rng.random(9).argsort() + 1]).astype(np.uint8)
        drawn.append((cells.reshape(-1), digits, int(rng.random() * 2**62)))
    return drawn


def guesses(boards: np.ndarray) -> np.ndarray:
    """Guesses (N,) until the solutions of boards (N, 81) are found, in expectation: 0 where deduction solves a board.

    The harmonic mean over `RULES`, scaled, of their means over `SHUFFLES`. One count depends on the luck of the order
    in which cells and digits are tried, which a shuffle changes. A puzzle that is hard for one rule alone is not hard:
    the result is below three times the least mean. (ours)

    A guess of the full search tree counts 1/2, one that is open at the solution, its first branch being right, 1: what
    a search would take where chance decides which branch of a guess is tried first. In expectation one whose second
    branch was right would count 1, too; there is about one such more on hard puzzles.
    """
    counts = [
        [
            [search(digits[board[cells]], rule, 2, NO_CAP, seed, NOTHING)[1:] for cells, digits, seed in shuffles()]
            for rule in RULES
        ]
        for board in boards
    ]
    means = (np.array(counts).sum(-1) / 2).mean(2)
    with np.errstate(divide="ignore"):
        return len(RULES) / (1 / (means * np.array(SCALES))).sum(-1)
