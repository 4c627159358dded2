"""Typed declared puzzles: what is drawn is read again, and every reader reads alike or refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
from test_declared import NAMES, drawn
from typed_texts import Case, reading_test
from typed_texts import page as page

from datasets_gen.extensions.declared import WithCages
from datasets_gen.extensions.declared.generate import make
from datasets_gen.extensions.declared.pages.nonogram import Nonogram
from datasets_gen.extensions.declared.relations import gather, rows
from datasets_gen.parallel import seeded


def declared(page: Any) -> Case:
    if isinstance(page, str):
        puzzle, questions, answers, relations = drawn(page)
        return Case(puzzle, questions[0], answers[0], None if relations is None else relations[0])
    puzzle, made = page(), None
    rng = seeded(1, 0)
    while made is None:
        made = make(puzzle, rng)
    relations = gather(puzzle.always_instances, [made.own])
    puzzle = puzzle.of(puzzle.structure.model_copy(update={"relations": relations}))
    return Case(puzzle, made.question, made.answers[0], rows(relations, [made.own])[0])


class Binary(Nonogram):
    """A nonogram whose cells look like lengths of runs."""

    name = "binary"
    values = "01"


class Pairs(WithCages):
    """More cages than letters from A to z, and a row of cells in none."""

    name = "pairs"
    grid, values = (13, 12), "123456789"


def pairs() -> Case:
    puzzle, answer = Pairs(), np.arange(156) % 9 + 1
    cages = [np.array([cell, cell + 1]) for cell in range(0, 144, 2)]
    _, own = puzzle.read(puzzle.caged(puzzle.cells.flat, cages, [int(answer[cage].sum()) for cage in cages]))
    relations = gather([], [own])
    puzzle = puzzle.of(puzzle.structure.model_copy(update={"relations": relations}))
    question = np.where(np.arange(156) % 5, 1, answer + 1).astype(np.uint8)
    return Case(puzzle, question, (answer + 1).astype(np.uint8), rows(relations, [own])[0])


CASES = {
    **{name: lambda name=name: declared(name) for name in NAMES},
    "binary nonogram": lambda: declared(Binary),
    "many cages": pairs,
}
test_every_reader_reads_alike_or_refuses = reading_test(CASES)
