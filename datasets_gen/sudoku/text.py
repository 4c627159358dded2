"""Sudoku boards as text."""

from __future__ import annotations

import numpy as np

from datasets_gen.layout import DatasetError
from datasets_gen.sudoku.geometry import BOXES

BLANKS = ".0_*?"
RULING = " \t\r\n|-+=':,"


def draw(digits: np.ndarray, given: np.ndarray) -> str:
    """A board (S,) of digits, 0 blank, boxes ruled; a digit that is not `given` (S,) gets a prime."""
    size = round(len(digits) ** 0.5)
    height, width = BOXES[size]
    lines = []
    for row in range(size):
        if row and row % height == 0:
            lines.append("+".join(["-" * (3 * width + 1)] * (size // width)))
        marks = [
            " . " if digits[cell] == 0 else f" {digits[cell]}{' ' if given[cell] else chr(39)}"
            for cell in range(row * size, (row + 1) * size)
        ]
        groups = ["".join(marks[start : start + width]) + " " for start in range(0, size, width)]
        lines.append("|".join(groups))
    return "\n".join(line.rstrip() for line in lines)


def parse(text: str, size: int) -> np.ndarray:
    """Digits (S,), 0 blank, of a typed board: size² characters, whatever rules and spaces lie between.

    Raises:
        DatasetError: a character that is neither digit, blank nor ruling, or another number of cells.
    """
    digits = []
    for place, character in enumerate(text):
        if character in BLANKS:
            digits.append(0)
        elif character in "123456789" and int(character) <= size:
            digits.append(int(character))
        elif character not in RULING:
            raise DatasetError(
                f"character {place + 1} of the board is {character!r}; type digits 1-{size}, "
                f"and one of {BLANKS} for an open cell"
            )
    if len(digits) != size * size:
        raise DatasetError(
            f"the board has {len(digits)} cells, a {size}x{size} Sudoku has {size * size}; type '.' for every open cell"
        )
    return np.array(digits, np.uint8)
