"""The puzzle family of a set."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any

from datasets_gen.family import Puzzle as Puzzle
from datasets_gen.layout import DatasetError, Metadata
from datasets_gen.maze import Maze
from datasets_gen.plugins import installed, load_parts, nearest
from datasets_gen.structure import Structure
from datasets_gen.sudoku import Sudoku


class UnknownPuzzle(DatasetError):
    """A set without a family: training works, but there are no rules, drawings or symmetries."""


FAMILIES: dict[str, Any] = {family.name: family for family in (Sudoku, Maze)}
READERS: list[Callable[[Mapping[str, Any], Structure | None], Puzzle | None]] = []  # of a `task`, before FAMILIES
# of a puzzle's name, or of the file that declares it
NAMED: list[Callable[[str], Puzzle | None]] = [lambda name: Sudoku() if name == Sudoku.name else None]
PUBLISHED: dict[tuple[int, int], Puzzle] = {  # of the sets that come without a `task`
    (puzzle.seq_len, puzzle.vocab_size): puzzle for puzzle in (Sudoku(9), Maze(30))
}


def puzzle_of(metadata: Metadata) -> Puzzle:
    """Return the family of a set: by its `task` field, or by the shape of a published set; see `family_of`."""
    stated = metadata.seq_len, metadata.vocab_size
    puzzle = family_of(metadata.task, *stated, metadata.structure)
    if stated != (has := (puzzle.seq_len, puzzle.vocab_size)):
        raise DatasetError(f"dataset.json states {stated} cells and tokens, but {puzzle.task} has {has}")
    return puzzle


def known_puzzle(metadata: Metadata) -> Puzzle | None:
    """Return the family of a set, or None if no family fits; a model can still be trained on the set."""
    try:
        return puzzle_of(metadata)
    except (KeyError, TypeError, ValueError):
        return None


def structure_of(metadata: Metadata) -> Structure:
    """Return grid, groups and symbols: those that the set declares, else those of its family, else none."""
    if metadata.structure is not None:
        return metadata.structure
    puzzle = known_puzzle(metadata)
    return Structure() if puzzle is None else puzzle.structure


def family_of(task: Mapping[str, Any], seq_len: int, vocab_size: int, structure: Structure | None = None) -> Puzzle:
    """Return the family that a `task` field names; without a name, that of the published set of the shape.

    structure: of the set; its relations may be the rules. Raises UnknownPuzzle if no family fits.
    """
    for read in READERS:
        if (puzzle := read(task, structure)) is not None:
            return puzzle
    settings = {key: value for key, value in task.items() if key != "labels"}
    name = settings.pop("name", None)
    if not isinstance(name, str) or name not in FAMILIES:
        if name is None and (seq_len, vocab_size) in PUBLISHED:
            return PUBLISHED[seq_len, vocab_size]
        raise UnknownPuzzle(
            f"no puzzle family for task {dict(task) or '(none stated)'} with {seq_len} cells and {vocab_size} tokens; "
            "it can be trained on, without rules, drawing or symmetries; dataset.json may state one, such as "
            f'"task": {{"name": "sudoku", "size": 4}}; {installed()}'
        )
    known = fields(FAMILIES[name]) if is_dataclass(FAMILIES[name]) else ()
    needed = [field.name for field in known if field.default is field.default_factory is MISSING]
    missing = [each for each in needed if each not in settings]
    if not known or missing:
        what = ", ".join(missing) or "everything but the name"
        raise DatasetError(f"task {dict(task)} describes no {name}: {what} is missing; regenerate the set")
    kinds = {field.name: getattr(field.type, "__name__", field.type) for field in known}
    if wrong := [key for key, value in settings.items() if type(value).__name__ != kinds.get(key)]:
        raise DatasetError(f"task {dict(task)} describes no {name}: {wrong[0]} is wrong; its settings are {kinds}")
    family: Puzzle = FAMILIES[name](**settings)
    return family


def puzzle_named(name: str) -> Puzzle:
    """Return a puzzle without a set, by its name or by the file that declares it."""
    named = next((puzzle for puzzle in (read(name) for read in NAMED) if puzzle is not None), None)
    if named is None:
        near = nearest(name, {*FAMILIES, *map(str, Path().glob("*.py"))} - {name})
        raise DatasetError(f"{name} is neither the folder of a set nor a declared puzzle; {near}{installed()}")
    return named


load_parts("puzzles")
