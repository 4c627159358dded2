"""Read and check ARC tasks from their JSON files."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, NotRequired

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict  # of Python 3.11, pydantic takes no other

from datasets_gen.extensions.arc.puzzles import SIDE, Augmentation, board_of, crop
from datasets_gen.layout import DatasetError, Split, read_json

TASKS = "test_puzzles.json"  # of a set: the tasks that it asks about
Grid = list[list[int]]
Task = dict[str, list[dict[str, Grid]]]  # {"train": [{"input", "output"} …], "test": …}, whose outputs may be missing


def _rectangle(grid: Grid) -> Grid:
    if len({len(row) for row in grid}) > 1:
        raise ValueError(f"rows of {sorted({len(row) for row in grid})} cells; all rows must have the same length")
    return grid


_Colour = Annotated[int, Field(strict=True, ge=0, le=9)]
_Row = Annotated[list[_Colour], Field(min_length=1, max_length=SIDE)]
_Grid = Annotated[list[_Row], Field(min_length=1, max_length=SIDE), AfterValidator(_rectangle)]


class _Shown(TypedDict):
    input: _Grid
    output: _Grid


class _Asked(TypedDict):
    input: _Grid
    output: NotRequired[_Grid]


class _Task(TypedDict):
    train: list[_Shown]
    test: list[_Asked]


_TASKS, _SOLUTIONS = TypeAdapter(dict[str, _Task]), TypeAdapter(dict[str, list[_Grid]])


def task_files(sources: Iterable[Path]) -> list[Path]:
    """Return the files to load, also those in folders; files of solutions are loaded together with their challenges."""
    files = [file for source in sources for file in (sorted(source.rglob("*.json")) if source.is_dir() else [source])]
    files = [file for file in files if file.name != "metadata.json"]  # re-arc's statistics
    return [file for file in files if (asked := _beside(file, "challenges")) == file or asked not in files]


def _beside(path: Path, kind: str) -> Path:
    return path.with_name(re.sub("challenges|solutions", kind, path.name))


def read_tasks(path: Path) -> dict[str, Task]:
    """Return the tasks of a task file, or of a challenges file and, if it exists, its solutions file."""
    content = read_json(path)
    if isinstance(content, list):  # pairs of one task, as re-arc writes them
        content = {"train": content, "test": []}
    if isinstance(content, dict) and content.keys() >= {"train", "test"}:
        content = {path.stem: content}  # one task, as the repositories of ARC-AGI keep them
    tasks: dict[str, Task] = _checked(_TASKS, content, path)
    solutions = _beside(path, "solutions")
    if solutions != path and solutions.exists():
        for name, outputs in _checked(_SOLUTIONS, read_json(solutions), solutions).items():
            pairs = tasks.get(name, {"test": []})["test"]
            if len(outputs) != len(pairs):
                raise DatasetError(f"{solutions}: task {name}: {len(outputs)} solutions of {len(pairs)} test pairs")
            for pair, output in zip(pairs, outputs, strict=True):
                pair["output"] = output
    return tasks


def _checked(adapter: TypeAdapter[Any], content: Any, path: Path) -> Any:
    try:
        return adapter.validate_python(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = "".join(f", {part}" for part in first["loc"])
        raise DatasetError(f"{path}{where} (counted from 0): {first['msg']}, got {first['input']!r:.40}") from None


def tasks_asked(directory: Path, identifiers: list[str], split: Split) -> dict[str, Task]:
    """Return the tasks whose test inputs are in a set: from its test_puzzles.json or, without it, from its pairs.

    identifiers, split: of the set's test split; the puzzles that are not augmented hold the pairs.
    """
    path = directory / TASKS
    if path.exists():
        return read_tasks(path)
    tasks: dict[str, Task] = {}
    for puzzle, identifier in enumerate(split.puzzle_identifiers):
        name = identifiers[identifier]
        if Augmentation.of(name) == (name, Augmentation()):
            pairs = tasks.setdefault(name, {"train": [], "test": []})["test"]
            for example in range(split.puzzle_indices[puzzle], split.puzzle_indices[puzzle + 1]):
                grids = {"input": split.inputs[example], "output": split.labels[example]}
                pairs.append({key: crop(board_of(tokens)).tolist() for key, tokens in grids.items()})
    return tasks
