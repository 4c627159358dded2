"""Typed grids of ARC: what is drawn is read again, and every reader reads alike or refuses."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typed_texts import COUNTS, Case, all_read_alike, drawn_is_read_again
from typed_texts import page as page

from datasets_gen.extensions.arc.puzzles import Arc, tokens_of
from datasets_gen.parallel import seeded


def arc(size: int, top: int, left: int) -> Case:
    grid = (seeded(1, size).random((2, 3)) * 10).astype(int)
    tokens = tokens_of(grid, top, left, size)
    return Case(Arc(size), tokens, tokens)


CASES = {
    "arc": lambda: arc(6, 0, 0),
    "moved arc": lambda: arc(5, 3, 2),
}
case_of = cache(lambda name: CASES[name]())


@pytest.mark.parametrize("name", CASES)
def test_what_is_drawn_is_read_again(name: str, page: Any) -> None:
    drawn_is_read_again(case_of(name), page)


@pytest.mark.parametrize("name", CASES)
@COUNTS
def test_every_reader_reads_alike_or_refuses(name: str, count: int, page: Any, tmp_path: Path) -> None:
    all_read_alike(case_of(name), count, page, tmp_path)
