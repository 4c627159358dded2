"""Classes of full grids under the symmetries of the board."""

from __future__ import annotations

import numpy as np

from datasets_gen.sudoku.signature import mix
from datasets_gen.sudoku.tables import BOXES


def solution_classes(answers: np.ndarray) -> np.ndarray:
    """(N,) uint64 of full grids (N, S): equal where a symmetry maps one to the other, and hardly ever elsewhere. (ours)

    Two lines are a permutation of the digits, whose cycles no renaming and no move changes. Read are the cycles of
    every pair of rows and of columns, and whether the two share a band.
    """
    size = round(answers.shape[1] ** 0.5)
    grids, digits = answers.reshape(-1, size, size).astype(np.int64) - 1, np.arange(size)
    first, second = np.triu_indices(size, 1)
    classes = np.zeros(len(answers), np.uint64)
    for lines, per_band in zip((grids, grids.swapaxes(1, 2)), BOXES[size], strict=True):
        follows = np.empty((len(lines), len(first), size), np.int64)
        np.put_along_axis(follows, lines[:, first], lines[:, second], -1)
        lengths = np.zeros(follows.shape, np.uint64)  # of the cycle that holds each digit
        at = np.broadcast_to(digits, follows.shape)
        for length in range(1, size + 1):
            at = np.take_along_axis(follows, at, -1)
            lengths[(lengths == 0) & (at == digits)] = length
        together = (first // per_band == second // per_band).astype(np.uint64)
        classes += mix(mix(mix(lengths).sum(-1) + together).sum(-1))
    return classes
