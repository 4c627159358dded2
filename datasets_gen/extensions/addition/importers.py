"""`python -m datasets_gen import addition-jsonl`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from datasets_gen.arguments import described
from datasets_gen.extensions.addition.puzzles import MOST_DIGITS, Addition
from datasets_gen.importers import FORMATS, Format, by_split
from datasets_gen.layout import DatasetError, Split, brief, parse_json, text_file

EXAMPLE = """\
  STARS            repository njuyxw/STARS, file train_addition/data/test_4digit.jsonl
                   python -m datasets_gen import addition-jsonl test_4digit.jsonl --output-dir data/addition
"""


def from_sums(options: argparse.Namespace) -> dict[str, Any]:
    """The sums of every split, on as many digits as the longest operand has."""
    sums = {split: read_sums(source) for split, source in by_split(options).items()}
    puzzle = Addition(max(len(str(n)) for rows in sums.values() for operands in rows for n in operands))
    splits = {name: split_of_sums(puzzle, rows) for name, rows in sums.items()}
    return {"splits": splits, **described(puzzle)}


def read_sums(path: Path) -> list[list[int]]:
    """The operands of every line; blank lines are passed over.

    Raises:
        DatasetError: a missing file, or a faulty or wrong sum; the text names its line.
    """
    with text_file(path) as file:
        sums = [_operands(line, f"{path}, line {number}") for number, line in enumerate(file, 1) if line.strip()]
    if not sums:
        raise DatasetError(f"{path} holds no sum")
    return sums


def _operands(line: str, where: str) -> list[int]:
    row = parse_json(line, where)
    if not isinstance(row, dict):
        raise DatasetError(f"{where}: no object with num1, num2 and sum")
    operands = [_whole(row, name, where) for name in ("num1", "num2")]
    totals = [_whole(row, name, where) for name in ("sum", "answer") if name in row]
    if not totals:
        raise DatasetError(f"{where}: neither sum nor answer")
    if wrong := [total for total in totals if total != sum(operands)]:
        raise DatasetError(f"{where}: {brief(operands[0])} + {brief(operands[1])} is not {brief(wrong[0])}")
    written = row.get("expression", f"{operands[0]} + {operands[1]}")
    if not isinstance(written, str) or written.replace(" ", "") != f"{operands[0]}+{operands[1]}":
        raise DatasetError(f"{where}: expression {brief(written)} is not num1 + num2")
    if max(operands) >= 10**MOST_DIGITS:
        raise DatasetError(f"{where}: an operand has more than {MOST_DIGITS} digits")
    return operands


def _whole(row: dict[str, Any], name: str, where: str) -> int:
    if name not in row:
        raise DatasetError(f"{where}: no {name}; num1, num2 and sum are needed")
    value = row[name]
    if type(value) is not int or value < 0:
        raise DatasetError(f"{where}: {name} is {brief(value)}, a whole number from 0 expected")
    return value


def split_of_sums(puzzle: Addition, sums: list[list[int]]) -> Split:
    """The examples of sums; ratings are the digits of the longest operand."""
    inputs, labels = zip(*(puzzle.example(operands) for operands in sums), strict=True)
    digits = [len(str(max(operands))) for operands in sums]
    return Split.of_puzzles(np.array(inputs), np.array(labels), np.array(digits, np.int32))


FORMATS["addition-jsonl"] = Format(from_sums, EXAMPLE)
