"""Typed grids of ARC: what is drawn is read again, and every reader reads alike or refuses."""

from __future__ import annotations

from typed_texts import Case, reading_test
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
test_every_reader_reads_alike_or_refuses = reading_test(CASES)
