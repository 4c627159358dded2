"""Fingerprints that are invariant under a puzzle's symmetries, by which copies in two splits are detected."""

from __future__ import annotations

import numpy as np

from datasets_gen.sudoku.tables import BOXES, geometry

ROUNDS = 4


def signatures(questions: np.ndarray, answers: np.ndarray) -> np.ndarray:
    """Return hashes (N,) uint64 of puzzles with their solutions, both (N, S) digits, 0 for a blank (ours).

    Sizes 6 and 9: colour refinement (Weisfeiler and Leman) of the graph of cells, rows, columns, boxes and digits; the
    first colours mark the given cells. Its time is linear in the cells, whereas a canonical form would try
    millions of symmetries of each puzzle. The result is invariant under relabelling, moves of rows, columns, bands and
    stacks, and transposition if boxes are square. Equivalent puzzles always share a fingerprint. Different puzzles
    rarely do; the generator then skips one of them, without harm.

    Size 4: relabelling only. Up to all symmetries there are 36 minimal puzzles, too few to split.
    """
    size = round(questions.shape[1] ** 0.5)
    given = questions != 0
    if size == 4:
        return _relabelled(given, answers.astype(np.int64) - 1)
    height, width = BOXES[size]
    units = geometry(size).units.reshape(3, size, size)
    is_digit = answers[:, None, :] == np.arange(1, size + 1)[:, None]  # (N, n, S)
    cell = mix(given.astype(np.uint64) + np.uint64(1))  # (N, S)
    for _ in range(ROUNDS):
        kinds = []
        for kind in range(3):  # rows, columns, boxes
            totals = mix(cell[:, units[kind]].sum(-1))  # (N, n)
            by_cell = np.empty_like(cell)
            by_cell[:, units[kind].ravel()] = np.repeat(totals, size, axis=1)
            kinds.append(by_cell)
        digits = mix(np.where(is_digit, cell[:, None, :], np.uint64(0)).sum(-1))  # (N, n)
        digit_of_cell = np.take_along_axis(digits, answers.astype(np.int64) - 1, 1)
        rows, columns, boxes = kinds
        columns = columns if height == width else mix(columns + np.uint64(3))
        others = mix(boxes + np.uint64(7)) + mix(digit_of_cell + np.uint64(11))
        cell = mix(cell + np.uint64(5) * (rows + columns) + others)
    return mix(cell.sum(-1))


def _relabelled(given: np.ndarray, digits: np.ndarray) -> np.ndarray:
    """Return a hash of the grid with its digits numbered in the order of their first appearance."""
    size = round(given.shape[1] ** 0.5)
    first_seen = np.stack([(digits == digit).argmax(1) for digit in range(size)], axis=1)  # (N, n)
    number = np.take_along_axis(first_seen.argsort(1).argsort(1), digits, 1)
    colour = (2 * number + given).astype(np.uint64)
    place = np.arange(1, given.shape[1] + 1, dtype=np.uint64)
    return mix(mix(mix(place) + colour).sum(-1))


def mix(values: np.ndarray) -> np.ndarray:
    """Apply splitmix64's finalizer, a bijection of uint64 in which every input bit affects all output bits."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
