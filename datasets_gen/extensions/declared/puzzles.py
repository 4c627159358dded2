"""The pages as families, and the puzzles that dataset.json states whole."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from datasets_gen.extensions.declared.pages import pages
from datasets_gen.extensions.declared.puzzle import FACTS, OWN, Declared
from datasets_gen.extensions.declared.text import FORMS
from datasets_gen.family import Puzzle
from datasets_gen.layout import Split
from datasets_gen.puzzles import FAMILIES, NAMED, READERS
from datasets_gen.structure import Structure

SAMPLE = 4  # puzzles with every clue shown, which tell the relations of a page


def of_task(task: Mapping[str, Any], structure: Structure | None) -> Declared | None:
    """The puzzle of a `task` with these facts, whose file need not be there; None: another kind of task."""
    if not isinstance(task.get("name"), str) or not FACTS.keys() <= task.keys():
        return None
    form = FORMS.get(str(task.get("form", "")), Declared)
    page = FAMILIES.get(task["name"], OWN.get(task["name"], form))
    return page.of_task(task, structure) if issubclass(page, Declared) else None


@cache
def sample(name: str) -> tuple[Declared, dict[str, Split]]:
    """A few puzzles of a page, or of a file, with every clue shown, and the puzzle with their relations."""
    from datasets_gen.extensions.declared.generate import declared_splits

    return declared_splits(name, {"train": SAMPLE}, clues=10**6, processes=1)


def named(name: str) -> Puzzle | None:
    """The puzzle of a page, or of a file of your own, with the relations of a sample; None: another word."""
    return sample(name)[0] if name in pages() or name.endswith(".py") else None


FAMILIES |= pages()
READERS.append(of_task)
NAMED.append(named)
