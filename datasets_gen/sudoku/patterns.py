"""Index tables of a board whose digits are words of bits: where a digit may stand in a band."""

from __future__ import annotations

from functools import cache
from itertools import permutations
from typing import NamedTuple

import numpy as np

from datasets_gen.sudoku.geometry import BOXES, geometry

ROWS = np.arange(512)
BITS = np.bitwise_count(ROWS).astype(np.uint8)  # bits of a row
TOUCHED = [((ROWS >> 3 * stack & 7) > 0) << stack for stack in range(3)]
STACKS = np.bitwise_or.reduce(TOUCHED).astype(np.uint8)  # boxes that a row touches
BOX = 0o007007007  # the box in stack 0 of a band


class Patterns(NamedTuple):
    """Tables of one board size n with S = n² cells.

    A band is a row of boxes. A word of 27 bits says where a digit may stand in it: bit 9r + 3s + j is column j of row r
    of the box in stack s; a smaller board leaves bits unused. A block is a band or a stack; a pattern of 9 bits says
    which lines and boxes of it the digit may take: bit 3i + k is line i of box k.
    """

    units: np.ndarray  # (3n, n) uint8   cells of every row, then column, then box
    band_of: np.ndarray  # (S,) uint8
    bit_of: np.ndarray  # (S,) uint32
    peers: np.ndarray  # (S, 3) uint32   cells that share a unit with a cell, a word per band
    cells: np.ndarray  # (3,) uint32     all cells
    closed: np.ndarray  # (2, 512) uint16  what permutations leave of a pattern: in bands, in stacks
    fillings: np.ndarray  # (2, 512) uint8   how many permutations a pattern holds
    sizes: np.ndarray  # (2,) uint8      cells that a line of a band shares with a box, and one of a stack
    nothing: np.ndarray  # (0, n, 3) uint32  what `search` gets where the solutions need not be noted


@cache
def patterns(size: int) -> Patterns:
    """The tables of a board of `size` rows."""
    height, width = BOXES[size]
    units, _, peers = geometry(size)[:3]
    row, column = np.divmod(np.arange(size * size), size)
    band_of = row // height
    bit_of = 1 << (9 * (row % height) + 3 * (column // width) + column % width)
    words = np.where(band_of[:, None] == np.arange(3), bit_of[:, None], 0)  # (S, 3)
    closed, fillings = zip(_permuted(height), _permuted(width), strict=True)
    return Patterns(
        units,
        band_of.astype(np.uint8),
        bit_of.astype(np.uint32),
        words[peers].sum(1).astype(np.uint32),
        words.sum(0).astype(np.uint32),
        np.array(closed, np.uint16),
        np.array(fillings, np.uint8),
        np.array([width, height], np.uint8),
        np.empty((0, size, 3), np.uint32),
    )


def _permuted(order: int) -> tuple[np.ndarray, np.ndarray]:
    """For every pattern the union of the permutations it holds, and their number.

    In a block a digit takes one line of every box, and in every box another: a permutation. An entry that no
    permutation uses falls away; these are the locked candidates.
    """
    union, number = np.zeros(512, np.int64), np.zeros(512, np.int64)
    for each in permutations(range(order)):
        permutation = sum(1 << 3 * line + box for line, box in enumerate(each))
        held = ROWS & permutation == permutation
        union |= np.where(held, permutation, 0)
        number += held
    return union, number


def _rivals(entry: int) -> int:
    """The entries in the same line or box of a block as an entry."""
    line, box = divmod(entry, 3)
    return (0o007 << 3 * line | 0o111 << box) & ~(1 << entry)


def _alone(lines: int) -> np.ndarray:
    """The entries of every pattern that have no rival among `lines` of their own."""
    own = [lines << (e % 3 if lines == 0o111 else 3 * (e // 3)) for e in range(9)]
    return np.bitwise_or.reduce([np.where(ROWS & _rivals(e) & own[e] == 0, ROWS & 1 << e, 0) for e in range(9)])


ALONE = (_alone(0o111) | _alone(0o007)).astype(np.uint16)  # entries that are alone in their box or line
FORCED = np.bitwise_and.reduce([np.where(ROWS >> e & 1, 511 & ~_rivals(e), 511) for e in range(9)]).astype(np.uint16)
CELLS = [(ROWS >> e & 1) * (7 << 9 * (e // 3) + 3 * (e % 3)) for e in range(9)]
SPREAD = np.bitwise_or.reduce(CELLS).astype(np.uint32)  # cells of a band
