"""Tables of words of bits that say where a digit may stand, the same for boards of every size.

A band is a row of boxes. A word of 27 bits says where a digit may stand in it: bit 9r + 3s + j is column j of row r
of the box in stack s; a smaller board leaves bits unused. A block is a band or a stack; a pattern of 9 bits says
which lines and boxes of it the digit may take: bit 3i + k is line i of box k.
"""

from __future__ import annotations

import numpy as np

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
