"""`python -m datasets_gen import addition-jsonl`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import AliasChoices, BaseModel, Field, StrictInt, ValidationError, model_validator

from datasets_gen.arguments import described
from datasets_gen.extensions.addition.puzzles import MOST_DIGITS, Addition
from datasets_gen.importers import FORMATS, Format, by_split
from datasets_gen.layout import DatasetError, Split, read_objects

EXAMPLE = """\
  STARS            repository njuyxw/STARS, file train_addition/data/test_4digit.jsonl
                   python -m datasets_gen import addition-jsonl test_4digit.jsonl --output-dir data/addition
"""


class _Sum(BaseModel):
    """A sum as STARS writes it."""

    num1: StrictInt = Field(ge=0, lt=10**MOST_DIGITS)
    num2: StrictInt = Field(ge=0, lt=10**MOST_DIGITS)
    sum: StrictInt = Field(validation_alias=AliasChoices("sum", "answer"))

    @model_validator(mode="after")
    def _right(self) -> _Sum:
        if self.sum != self.num1 + self.num2:
            raise ValueError("it is not the sum of num1 and num2")
        return self


def from_sums(options: argparse.Namespace) -> dict[str, Any]:
    """The sums of every split, on as many digits as the longest operand has; ratings are the digits of the longest."""
    sums = {split: read_sums(source) for split, source in by_split(options).items()}
    digits = {split: np.array([len(str(max(operands))) for operands in rows], np.int32) for split, rows in sums.items()}
    puzzle = Addition(int(max(map(max, digits.values()))))
    splits = {}
    for split, rows in sums.items():
        inputs, labels = zip(*map(puzzle.example, rows), strict=True)
        splits[split] = Split.of_puzzles(np.array(inputs), np.array(labels), digits[split])
    return {"splits": splits, **described(puzzle)}


def read_sums(path: Path) -> list[list[int]]:
    """The operands of every sum."""
    sums = []
    for where, entry in read_objects(path):
        try:
            row = _Sum.model_validate(entry)
        except ValidationError as error:
            first = error.errors()[0]
            raise DatasetError(f"{where}: {' '.join(map(str, first['loc']))}: {first['msg']}") from None
        sums.append([row.num1, row.num2])
    if not sums:
        raise DatasetError(f"{path} holds no sum")
    return sums


FORMATS["addition-jsonl"] = Format(from_sums, EXAMPLE)
