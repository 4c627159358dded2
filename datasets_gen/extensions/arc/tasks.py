"""ARC tasks as their JSON files have them, read and checked grid by grid."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from datasets_gen.extensions.arc.puzzles import SEPARATOR, SIDE, Augmentation, board_of, crop
from datasets_gen.layout import DatasetError, Split, brief, read_json

TASKS = "test_puzzles.json"  # of a set: the tasks that it asks about
Grid = list[list[int]]
Task = dict[str, list[dict[str, Grid]]]  # {"train": [{"input", "output"} …], "test": …}, whose outputs may be missing


def task_files(sources: Iterable[Path]) -> list[Path]:
    """The files to read: those in folders, too, and no solutions, which are read with the challenges beside them.

    Raises:
        DatasetError: a folder without a file of tasks.
    """
    files: list[Path] = []
    for source in sources:
        found = sorted(source.rglob("*.json")) if source.is_dir() else [source]
        if not found:
            raise DatasetError(f"{source} is a folder without .json files; name the tasks' files or folder")
        files += found
    return [file for file in files if (asked := _beside(file, "challenges")) == file or asked not in files]


def _beside(path: Path, kind: str) -> Path:
    return path.with_name(re.sub("challenges|solutions", kind, path.name))


def read_tasks(path: Path) -> dict[str, Task]:
    """The tasks of a challenges file with the solutions of the file beside it where there is one, or of a task file.

    Raises:
        DatasetError: a missing file, or a faulty task, pair or grid; the text names it.
    """
    content = read_json(path)
    if isinstance(content, dict) and content.keys() >= {"train", "test"} and isinstance(content["train"], list):
        content = {path.stem: content}  # one task, as the repositories of ARC-AGI keep them
    if not isinstance(content, dict) or not content:
        raise DatasetError(f"{path} holds no ARC tasks; an object {{name: {{train, test}}}} is expected")
    for name in content:
        if SEPARATOR in name or not name.isprintable():
            raise DatasetError(f"{path}: task {brief(name)}: a name has printable characters and no {SEPARATOR}")
    tasks = {name: _task(task, f"{path}: task {name}") for name, task in content.items()}
    beside = _beside(path, "solutions")
    if beside != path and beside.exists():
        _add_solutions(tasks, read_json(beside), beside)
    return tasks


def chosen_tasks(tasks: dict[str, Task], names: Iterable[str]) -> dict[str, Task]:
    """The named tasks alone, in the order of `tasks`.

    Raises:
        DatasetError: a name of no task.
    """
    for name in (names := list(names)):
        if name not in tasks:
            near = difflib.get_close_matches(name, tasks, 1, 0.5)
            raise DatasetError(f"no task {name!r} in the sources{f'; did you mean {near[0]}?' if near else ''}")
    return {name: task for name, task in tasks.items() if name in names}


def _task(task: Any, where: str) -> Task:
    if not isinstance(task, dict) or not all(isinstance(task.get(part), list) for part in ("train", "test")):
        raise DatasetError(f"{where}: no object with the lists train and test")
    found: Task = {}
    for part in ("train", "test"):
        found[part] = []
        for number, pair in enumerate(task[part], 1):
            pair_at = f"{where}, {part} pair {number}"
            if not isinstance(pair, dict) or "input" not in pair or (part == "train" and "output" not in pair):
                raise DatasetError(f"{pair_at}: no object with input and output")
            grids = {key: pair[key] for key in ("input", "output") if key in pair}
            found[part].append({key: checked_grid(grid, f"{pair_at}, {key}") for key, grid in grids.items()})
    if not found["train"] and not found["test"]:
        raise DatasetError(f"{where}: not one pair")
    return found


def _add_solutions(tasks: dict[str, Task], solutions: Any, path: Path) -> None:
    if not isinstance(solutions, dict):
        raise DatasetError(f"{path} holds no solutions; an object {{name: [grid …]}} is expected")
    for name, outputs in solutions.items():
        if name not in tasks:
            raise DatasetError(f"{path}: task {brief(name)} is not among the challenges beside it")
        pairs = tasks[name]["test"]
        if not isinstance(outputs, list) or len(outputs) != len(pairs):
            raise DatasetError(f"{path}: task {name}: {len(pairs)} test pairs, another number of solutions")
        for number, (pair, output) in enumerate(zip(pairs, outputs, strict=True), 1):
            pair["output"] = checked_grid(output, f"{path}: task {name}, solution {number}")


def checked_grid(grid: Any, where: str) -> Grid:
    """The grid: 1 to 30 rows of 1 to 30 colours 0..9, all rows as long.

    Raises:
        DatasetError: anything else.
    """
    if not isinstance(grid, list) or not all(isinstance(row, list) for row in grid):
        raise DatasetError(f"{where}: {brief(grid)} of no rows; a list of lists of colours is expected")
    rows, columns = len(grid), len(grid[0]) if grid else 0
    if not (1 <= rows <= SIDE and 1 <= columns <= SIDE):
        raise DatasetError(f"{where}: {rows}x{columns} cells; 1x1 to {SIDE}x{SIDE} are expected")
    for number, row in enumerate(grid, 1):
        if len(row) != columns:
            raise DatasetError(f"{where}, row {number}: {len(row)} cells, {columns} expected as in row 1")
        for column, colour in enumerate(row, 1):
            if type(colour) is not int or not 0 <= colour <= 9:
                raise DatasetError(
                    f"{where}, row {number}, column {column}: colour {brief(colour)}; a whole number 0 to 9 is expected"
                )
    return grid


def tasks_asked(directory: Path, identifiers: list[str], split: Split) -> dict[str, Task]:
    """The tasks whose test inputs a set asks about: from its test_puzzles.json; without the file, from its pairs.

    identifiers, split: of the set's test split; the puzzles that are not augmented hold the pairs.

    Raises:
        DatasetError: the file is faulty.
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
