"""ARC tasks into splits: one identifier for every augmented puzzle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from datasets_gen.arc import SIDE, tokens_of
from datasets_gen.arc.augment import Augmentation
from datasets_gen.layout import DatasetError, Split
from datasets_gen.streams import stream

Task = dict[str, list[dict[str, Any]]]  # {"train": [{"input", "output"} …], "test": […]}
PATIENCE = 20  # draws for every augmentation that is to be new


def read_tasks(path: Path) -> dict[str, Task]:
    """The tasks of a challenges file, with the solutions of the file beside it where there is one.

    Raises:
        DatasetError: the file is missing or holds no tasks.
    """
    try:
        tasks = json.loads(path.read_text())
        beside = path.with_name(path.name.replace("challenges", "solutions"))
        if beside != path and beside.exists():
            for name, outputs in json.loads(beside.read_text()).items():
                for pair, output in zip(tasks[name]["test"], outputs, strict=True):
                    pair["output"] = output
        for task in tasks.values():
            for pair in (*task["train"], *task["test"]):
                np.array(pair["input"], np.uint8)
    except FileNotFoundError:
        raise DatasetError(f"{path} does not exist; download it first and give its local path") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DatasetError(f"{path} holds no ARC tasks as {{name: {{train, test}}}} ({error!r})") from None
    return tasks


def arc_splits(
    train_tasks: dict[str, Task], test_tasks: dict[str, Task], *, augmentations: int = 20, seed: int = 0
) -> tuple[dict[str, Split], list[str]]:
    """Splits train and test, and the identifiers.

    Train: every pair of the training tasks, and the demonstrations of the test tasks. Test: the test pairs of the
    test tasks, under every augmentation. A group is a task, a puzzle one augmentation of it, its examples are the
    pairs. In train all pairs of a puzzle but one lie at a random place of the board.

    Raises:
        DatasetError: a test task without solutions, or a name in both.
    """
    twice = sorted(train_tasks.keys() & test_tasks.keys())
    if twice:
        raise DatasetError(f"task {twice[0]} is among the training and the test tasks")
    identifiers = ["<blank>"]
    rows: dict[str, _Rows] = {"train": _Rows(), "test": _Rows()}
    for order, (name, task) in enumerate({**train_tasks, **test_tasks}.items()):
        rng = stream(seed, order)
        held_out = name in test_tasks
        learned = task["train"] if held_out else task["train"] + [p for p in task["test"] if "output" in p]
        asked = task["test"] if held_out else []
        if any("output" not in pair for pair in asked):
            raise DatasetError(f"task {name} has no solution; put its solutions file beside the challenges")
        for augmentation in _distinct(augmentations, rng):
            identifiers.append(augmentation.name(name))
            upright = int(rng.random() * len(learned))
            for index, pair in enumerate(learned):
                rows["train"].add(
                    pair, augmentation, rng if augmentation != Augmentation() and index != upright else None
                )
            for pair in asked:
                rows["test"].add(pair, augmentation, None)
            for part, pairs in (("train", learned), ("test", asked)):
                if pairs:
                    rows[part].close_puzzle(len(identifiers) - 1)
        for part, pairs in (("train", learned), ("test", asked)):
            if pairs:
                rows[part].close_group()
    return {name: part.split() for name, part in rows.items() if part.inputs}, identifiers


def _distinct(count: int, rng: np.random.Generator) -> list[Augmentation]:
    """The identity, and `count` others that differ."""
    found = {Augmentation(): None}
    for _ in range(PATIENCE * count):
        if len(found) == count + 1:
            break
        found[Augmentation.draw(rng)] = None
    return list(found)


class _Rows:
    """The growing arrays of a split."""

    def __init__(self) -> None:
        self.inputs: list[np.ndarray] = []
        self.labels: list[np.ndarray] = []
        self.identifiers: list[int] = []
        self.puzzles = [0]
        self.groups = [0]

    def add(self, pair: dict[str, Any], augmentation: Augmentation, rng: np.random.Generator | None) -> None:
        """One example; both grids move to the same random place where `rng` is given."""
        grids = [augmentation.apply(np.array(pair[key], np.int64)) for key in ("input", "output")]
        top = left = 0
        if rng is not None:
            top, left = (int(rng.random() * (SIDE - max(grid.shape[axis] for grid in grids) + 1)) for axis in (0, 1))
        question, label = (tokens_of(grid, top, left) for grid in grids)
        self.inputs.append(question)
        self.labels.append(label)

    def close_puzzle(self, identifier: int) -> None:
        self.identifiers.append(identifier)
        self.puzzles.append(len(self.inputs))

    def close_group(self) -> None:
        self.groups.append(len(self.identifiers))

    def split(self) -> Split:
        indices = (np.array(values) for values in (self.identifiers, self.puzzles, self.groups))
        return Split(np.array(self.inputs), np.array(self.labels), *indices)
