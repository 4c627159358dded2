"""`python -m datasets_gen import addition-jsonl`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from datasets_gen.arguments import described
from datasets_gen.extensions.addition.puzzles import MOST_DIGITS, Addition
from datasets_gen.importers import FORMATS, Format, by_split
from datasets_gen.layout import DatasetError, Split, read_objects

EXAMPLE = """\
  STARS            repository njuyxw/STARS, file train_addition/data/test_4digit.jsonl
                   python -m datasets_gen import addition-jsonl test_4digit.jsonl --output-dir data/addition
"""


def from_sums(options: argparse.Namespace) -> dict[str, Any]:
    """Return the sums of every split, padded to the digits of the longest operand; a rating is a sum's longest."""
    sums = {split: read_sums(source) for split, source in by_split(options).items()}
    digits = {split: np.array([len(str(max(operands))) for operands in rows], np.int32) for split, rows in sums.items()}
    puzzle = Addition(int(max(map(max, digits.values()))))
    splits = {}
    for split, rows in sums.items():
        inputs, labels = zip(*map(puzzle.example, rows), strict=True)
        splits[split] = Split.of_puzzles(np.array(inputs), np.array(labels), digits[split])
    return {"splits": splits, **described(puzzle)}


def read_sums(path: Path) -> list[list[int]]:
    """Return the operands of every sum."""
    sums = []
    for where, entry in read_objects(path):
        row = entry if isinstance(entry, dict) else {}
        operands: list[Any] = [row.get("num1"), row.get("num2")]
        total = row.get("sum", row.get("answer"))
        if not all(type(number) is int and 0 <= number < 10**MOST_DIGITS for number in operands):
            raise DatasetError(f"{where}: num1 and num2 must be whole numbers, got {operands!r:.80}")
        if total != sum(operands):
            raise DatasetError(f"{where}: {total!r:.40} is not the sum of num1 and num2")
        sums.append(operands)
    if not sums:
        raise DatasetError(f"{path} contains no sums")
    return sums


FORMATS["addition-jsonl"] = Format(from_sums, EXAMPLE)
