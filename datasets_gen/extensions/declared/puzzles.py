"""Registers the pages as families, and reads puzzles whose `task` in dataset.json is complete."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from datasets_gen.extensions.declared.pages import pages
from datasets_gen.extensions.declared.puzzle import FACTS, USER_PUZZLES, Declared
from datasets_gen.extensions.declared.text import FORMS
from datasets_gen.family import Puzzle
from datasets_gen.layout import Split
from datasets_gen.puzzles import FAMILIES, NAMED, READERS
from datasets_gen.structure import MOST, Structure

SAMPLE = 4  # puzzles with all clues, from which the relations of a page are read
USER_SAMPLE = 16  # of a user's file, whose puzzles may have few relations each


def of_task(task: Mapping[str, Any], structure: Structure | None) -> Declared | None:
    """Return the puzzle of a `task` with these fields, for which no file is needed; None: another kind of task."""
    if not isinstance(task.get("name"), str) or not FACTS.keys() <= task.keys():
        return None
    form = FORMS.get(str(task.get("form", "")), Declared)
    page = FAMILIES.get(task["name"], USER_PUZZLES.get(task["name"], form))
    return page.of_task(task, structure) if issubclass(page, Declared) else None


@cache
def sample(name: str) -> tuple[Declared, dict[str, Split]]:
    """Return the puzzle of a page or file with the relations of a few puzzles, and these, with all clues."""
    from datasets_gen.extensions.declared.generate import declared_splits

    counts = {"train": SAMPLE if name in pages() else USER_SAMPLE}
    return declared_splits(name, counts, clues=10**6, processes=1, tell=False)


def named(name: str) -> Puzzle | None:
    """Return the puzzle of a page or a user's file, with the relations of a sample; None: neither.

    A set bounds the clue numbers of its puzzles; here they may be any.
    """
    if name not in pages() and not name.endswith(".py"):
        return None
    puzzle = sample(name)[0]
    longest = max(puzzle.grid)
    runs, other = {"clues": (longest + 1) // 2, "highest": longest}, {"highest": MOST}
    relations = tuple(
        each.model_copy(update=(runs if each.rule == ["runs"] else other) if each.clues else {})
        for each in puzzle.structure.relations
    )
    return puzzle.of(puzzle.structure.model_copy(update={"relations": relations}))


FAMILIES |= pages()
READERS.append(of_task)
NAMED.append(named)
