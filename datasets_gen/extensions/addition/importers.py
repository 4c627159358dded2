"""`python -m datasets_gen import addition-jsonl`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, Field, StrictInt, ValidationError, model_validator

from datasets_gen.arguments import described
from datasets_gen.extensions.addition.puzzles import MOST_DIGITS, Addition
from datasets_gen.importers import FORMATS, Format, by_split
from datasets_gen.layout import DatasetError, Split, read_objects

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


class _Line(BaseModel):
    """A sum as STARS writes it, of which `sum` or `answer` must be there."""

    num1: StrictInt = Field(ge=0, lt=10**MOST_DIGITS)
    num2: StrictInt = Field(ge=0, lt=10**MOST_DIGITS)
    sum: StrictInt | None = None
    answer: StrictInt | None = None
    expression: str | None = None

    @model_validator(mode="after")
    def _right(self) -> _Line:
        text = None if self.expression is None else self.expression.replace(" ", "")
        if {self.sum, self.answer} - {None} != {self.num1 + self.num2} or text not in (
            None,
            f"{self.num1}+{self.num2}",
        ):
            raise ValueError("sum, answer or expression is not that of num1 and num2")
        return self


def read_sums(path: Path) -> list[list[int]]:
    """The operands of every sum."""
    sums = []
    for where, entry in read_objects(path):
        try:
            row = _Line.model_validate(entry)
        except ValidationError as error:
            first = error.errors()[0]
            raise DatasetError(f"{where}: {' '.join(map(str, first['loc']))}: {first['msg']}") from None
        sums.append([row.num1, row.num2])
    if not sums:
        raise DatasetError(f"{path} holds no sum")
    return sums


def split_of_sums(puzzle: Addition, sums: list[list[int]]) -> Split:
    """The examples of sums; ratings are the digits of the longest operand."""
    inputs, labels = zip(*(puzzle.example(operands) for operands in sums), strict=True)
    digits = [len(str(max(operands))) for operands in sums]
    return Split.of_puzzles(np.array(inputs), np.array(labels), np.array(digits, np.int32))


FORMATS["addition-jsonl"] = Format(from_sums, EXAMPLE)
