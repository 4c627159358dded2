"""ARC tasks into splits: one identifier for every augmented puzzle."""

from __future__ import annotations

from math import factorial

import numpy as np

from datasets_gen.arc import SIDE, Augmentation, tokens_of
from datasets_gen.arc.tasks import Grid, Task
from datasets_gen.layout import DatasetError, Split
from datasets_gen.parallel import seeded

PATIENCE = 20  # draws for every augmentation that is to be new
MOST = (8 * factorial(9) - 1) // 2  # augmentations; beyond half of those that exist, drawing would hardly end


def arc_splits(
    train_tasks: dict[str, Task],
    test_tasks: dict[str, Task],
    *,
    augmentations: int = 20,
    size: int = SIDE,
    seed: int = 0,
) -> tuple[dict[str, Split], list[str]]:
    """Splits train and test, and the identifiers.

    Train: every pair of the training tasks, and the demonstrations of the test tasks. Test: the test pairs of the
    test tasks, under every augmentation. A group is a task, a puzzle one augmentation of it, its examples are the
    pairs. In train all pairs of a puzzle but one lie at a random place of the board of size × size cells.

    Raises:
        DatasetError: a test task without solutions, a name in both, or a grid larger than the board.
    """
    if not 0 <= augmentations <= MOST:
        raise DatasetError(f"--augmentations {augmentations}: choose from 0 to {MOST:,}")
    twice = sorted(train_tasks.keys() & test_tasks.keys())
    if twice:
        raise DatasetError(f"task {twice[0]} is among the training and the test tasks")
    identifiers = ["<blank>"]
    rows: dict[str, _Rows] = {"train": _Rows(size), "test": _Rows(size)}
    for order, (name, task) in enumerate({**train_tasks, **test_tasks}.items()):
        rng = seeded(seed, order)
        held_out = name in test_tasks
        _check_fits(name, task, size)
        learned = task["train"] if held_out else task["train"] + [p for p in task["test"] if "output" in p]
        asked = task["test"] if held_out else []
        if held_out and not (asked and all("output" in pair for pair in asked)):
            raise DatasetError(f"task {name} has no test pair, or no solution; put its solutions beside the challenges")
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


def _check_fits(name: str, task: Task, size: int) -> None:
    for part, pairs in task.items():
        for number, pair in enumerate(pairs, 1):
            for key, grid in pair.items():
                if max(len(grid), len(grid[0])) > size:
                    raise DatasetError(
                        f"task {name}, {part} pair {number}: the {key} has {len(grid)}x{len(grid[0])} cells, "
                        f"more than a board of --size {size}; leave the task out (--tasks) or take a larger board"
                    )


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

    def __init__(self, size: int) -> None:
        self.size = size
        self.inputs: list[np.ndarray] = []
        self.labels: list[np.ndarray] = []
        self.identifiers: list[int] = []
        self.puzzles = [0]
        self.groups = [0]

    def add(self, pair: dict[str, Grid], augmentation: Augmentation, rng: np.random.Generator | None) -> None:
        """One example; both grids move to the same random place where `rng` is given."""
        grids = [augmentation.apply(np.array(pair[key], np.int64)) for key in ("input", "output")]
        top = left = 0
        if rng is not None:
            top, left = (
                int(rng.random() * (self.size - max(grid.shape[axis] for grid in grids) + 1)) for axis in (0, 1)
            )
        question, label = (tokens_of(grid, top, left, self.size) for grid in grids)
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
