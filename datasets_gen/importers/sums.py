"""STARS' sums: a JSON object a line, with num1, num2 and their sum."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from datasets_gen.addition import Addition
from datasets_gen.layout import DatasetError, Split


def read_sums(path: Path) -> list[list[int]]:
    """The operands of every line.

    Raises:
        DatasetError: a missing file, or a line that is no sum or a wrong one.
    """
    try:
        lines = path.read_text().splitlines()
    except FileNotFoundError:
        raise DatasetError(f"{path} does not exist; download it first and give its local path") from None
    sums = []
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
            operands, total = [int(row["num1"]), int(row["num2"])], int(row["sum"])
        except (ValueError, KeyError, TypeError) as error:
            raise DatasetError(f"{path}, line {number}: no object with num1, num2, sum ({error!r})") from None
        if sum(operands) != total or min(operands) < 0:
            raise DatasetError(f"{path}, line {number}: {operands[0]} + {operands[1]} is not {total}")
        sums.append(operands)
    if not sums:
        raise DatasetError(f"{path} holds no sum")
    return sums


def split_of_sums(puzzle: Addition, sums: list[list[int]]) -> Split:
    """The examples of sums; ratings are the digits of the longest operand."""
    inputs, labels = zip(*(puzzle.example(operands) for operands in sums), strict=True)
    digits = [len(str(max(operands))) for operands in sums]
    return Split.of_puzzles(np.array(inputs), np.array(labels), np.array(digits, np.int32))
