"""Tables of a Sudoku board: the cells that share a unit."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

BOXES = {4: (2, 2), 6: (2, 3), 9: (3, 3)}  # size: (rows of a box, columns of a box)


class Geometry(NamedTuple):
    """Index tables of one board size n with S = n² cells, for the solver and the rules."""

    units: np.ndarray  # (3n, n)  cells of every row, then column, then box
    units_of: np.ndarray  # (S,)     bit u is set if the cell lies in units[u]
    peers: np.ndarray  # (S, P)   cells that share a unit with a cell
    segments: np.ndarray  # (K, W)   the cells that a line and a box share, padded by repeating the first
    line_rest: np.ndarray  # (K, L)   the rest of that line, padded likewise
    box_rest: np.ndarray  # (K, L)   the rest of that box, padded likewise


@cache
def geometry(size: int) -> Geometry:
    """Return the tables of a board of `size` rows."""
    height, width = BOXES[size]
    cells = np.arange(size * size).reshape(size, size)
    boxes = cells.reshape(size // height, height, size // width, width).swapaxes(1, 2).reshape(size, size)
    units = np.concatenate([cells, cells.T, boxes])
    owns = (units[:, :, None] == np.arange(size * size)).any(1)  # (3n, S)
    peers = [np.setdiff1d(units[owns[:, cell]], [cell]) for cell in range(size * size)]
    segments, line_rest, box_rest = [], [], []
    for line in units[: 2 * size]:
        for box in boxes:
            shared = np.intersect1d(line, box)
            if len(shared):
                segments.append(shared)
                line_rest.append(np.setdiff1d(line, shared))
                box_rest.append(np.setdiff1d(box, shared))
    return Geometry(
        np.ascontiguousarray(units, np.uint8),
        (owns << np.arange(3 * size)[:, None]).sum(0),
        np.array(peers, np.uint8),
        _padded(segments),
        _padded(line_rest),
        _padded(box_rest),
    )


def _padded(rows: list[np.ndarray]) -> np.ndarray:
    width = max(map(len, rows))
    return np.array([np.pad(row, (0, width - len(row)), constant_values=row[0]) for row in rows], np.uint8)
