"""What three trivial solvers reach on the 9×9 Sudokus of a set, for docs/leaderboard.md.

    python -m benchmarks.baselines data/sudoku-referee

guess: every open cell takes a random digit that no clue of its row, column or box has.
naked singles: a cell with one such digit takes it, until none has one. singles: hidden ones, too (depth 0).
"""

from __future__ import annotations

import sys

import numpy as np

from datasets_gen.extensions.extreme.depth import depths
from datasets_gen.layout import read_split
from datasets_gen.sudoku.tables import geometry


def open_digits(boards: np.ndarray) -> np.ndarray:
    """(N, 81) digits, 0 open -> (N, 81, 9) bool: what an open cell may still be."""
    seen = np.stack([(boards[:, geometry(9).peers] == digit).any(-1) for digit in range(1, 10)], axis=-1)
    return ~seen & (boards == 0)[..., None]


def guessed(boards: np.ndarray, seed: int = 0) -> np.ndarray:
    may = open_digits(boards)
    drawn = np.random.default_rng(seed).random(may.shape) * may
    return np.where(boards == 0, drawn.argmax(-1) + 1, boards)


def by_naked_singles(boards: np.ndarray) -> np.ndarray:
    while (alone := (may := open_digits(boards)).sum(-1) == 1).any():
        boards = np.where(alone, may.argmax(-1) + 1, boards)
    return boards


def shares(questions: np.ndarray, answers: np.ndarray) -> dict[str, float]:
    """Exact, by solver; questions, answers: (N, 81) digits."""
    exact = {solver.__name__: (solver(questions) == answers).all(1) for solver in (guessed, by_naked_singles)}
    exact["by_singles"] = depths(questions, answers).depth == 0
    return {name: float(right.mean()) for name, right in exact.items()}


if __name__ == "__main__":
    split = read_split(sys.argv[1], "test")[1]
    questions, answers = (np.maximum(tokens, 1).astype(np.uint8) - 1 for tokens in (split.inputs, split.labels))
    for name, share in shares(questions, answers).items():
        print(f"{name}: {100 * share:.1f} % of {len(questions):,}")
