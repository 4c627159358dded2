"""Tables of words of bits that say where a digit may stand.

A band is a row of boxes. A word of 27 bits says where a digit may stand in a band: bit 9r + 3s + j is column j of row r
of the box in stack s; a smaller board leaves bits unused. A block is a band or a stack. A pattern of 9 bits says which
lines and boxes of a block a digit may take: bit 3i + k is line i of box k.
"""

from __future__ import annotations

from itertools import permutations

import numpy as np

from datasets_gen.sudoku.tables import BOXES, geometry

ROWS = np.arange(512)
BITS = np.bitwise_count(ROWS).astype(np.uint8)  # bits of a row
TOUCHED = [((ROWS >> 3 * stack & 7) > 0) << stack for stack in range(3)]
STACKS = np.bitwise_or.reduce(TOUCHED).astype(np.uint8)  # boxes that a row touches
CROWDED = np.bitwise_or.reduce([(BITS[ROWS & 7 << 3 * stack] > 1) << stack for stack in range(3)]).astype(np.uint8)
BOX = 0o007007007  # the box in stack 0 of a band


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
PLACES = [(ROWS >> e & 1) * (7 << 9 * (e // 3) + 3 * (e % 3)) for e in range(9)]
SPREAD = np.bitwise_or.reduce(PLACES).astype(np.uint32)  # cells of a band
OPEN = np.array(
    [sum(BOX << 3 * k for k in range(3) if not taken >> k & 1) for taken in range(8)], np.uint32
)  # boxes of a band but some


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


_SIDE = max(BOXES) + 1  # the first index of the tables below is n, the size of the board
UNITS = np.zeros((_SIDE, 27, 9), np.uint8)  # cells of every row, then column, then box
WORDS = np.zeros((_SIDE, 27, 3), np.uint32)  # the same, a word per band
BAND_OF = np.zeros((_SIDE, 81), np.uint8)
BIT_OF = np.zeros((_SIDE, 81), np.uint32)
PEERS = np.zeros((_SIDE, 81, 3), np.uint32)  # cells that share a unit with a cell, a word per band
CELLS = np.zeros((_SIDE, 3), np.uint32)  # all cells
CLOSED = np.zeros((_SIDE, 2, 512), np.uint16)  # what permutations leave of a pattern: in bands, in stacks
FILLINGS = np.zeros((_SIDE, 2, 512), np.uint8)  # how many permutations a pattern holds
SHARED = np.zeros((_SIDE, 2), np.uint8)  # cells that a line of a band shares with a box, and one of a stack

for _n, (_height, _width) in BOXES.items():
    _units, _, _peers = geometry(_n)[:3]
    _row, _column = np.divmod(np.arange(_n * _n), _n)
    _band = _row // _height
    _bit = 1 << (9 * (_row % _height) + 3 * (_column // _width) + _column % _width)
    _words = np.where(_band[:, None] == np.arange(3), _bit[:, None], 0)  # (S, 3)
    UNITS[_n, : 3 * _n, :_n], WORDS[_n, : 3 * _n] = _units, _words[_units].sum(1)
    BAND_OF[_n, : _n * _n], BIT_OF[_n, : _n * _n], PEERS[_n, : _n * _n] = _band, _bit, _words[_peers].sum(1)
    CELLS[_n], SHARED[_n] = _words.sum(0), (_width, _height)
    for _kind, _order in enumerate((_height, _width)):
        CLOSED[_n, _kind], FILLINGS[_n, _kind] = _permuted(_order)
