"""Typed declared puzzles: what is drawn is read again, and every reader reads alike or refuses."""

from __future__ import annotations

from test_declared import NAMES, drawn
from typed_texts import Case, reading_test
from typed_texts import page as page


def declared(name: str) -> Case:
    puzzle, questions, answers, relations = drawn(name)
    return Case(puzzle, questions[0], answers[0], None if relations is None else relations[0])


CASES = {name: lambda name=name: declared(name) for name in NAMES}
test_every_reader_reads_alike_or_refuses = reading_test(CASES)
