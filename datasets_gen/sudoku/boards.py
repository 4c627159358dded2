"""Tables of boards whose digits are words of bits, as in patterns.py; their first index is n, the size of the board."""

from __future__ import annotations

from itertools import permutations

import numpy as np

from datasets_gen.sudoku.geometry import BOXES, geometry
from datasets_gen.sudoku.patterns import ROWS


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


_SIDE = max(BOXES) + 1
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
