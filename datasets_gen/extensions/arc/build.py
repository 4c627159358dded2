"""ARC tasks into splits: one identifier for every augmented puzzle."""

from __future__ import annotations

import numpy as np

from datasets_gen.extensions.arc.puzzles import SIDE, Augmentation, tokens_of
from datasets_gen.extensions.arc.tasks import Grid, Task
from datasets_gen.layout import DatasetError, Split
from datasets_gen.parallel import seeded

PATIENCE = 20  # draws for every augmentation that is to be new

_Puzzle = tuple[int, list[tuple[np.ndarray, np.ndarray]]]  # identifier, examples


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
    """
    identifiers = ["<blank>"]
    groups: dict[str, list[list[_Puzzle]]] = {"train": [], "test": []}
    for order, (name, task) in enumerate({**train_tasks, **test_tasks}.items()):
        rng = seeded(seed, order)
        held_out = name in test_tasks
        grids = [grid for pairs in task.values() for pair in pairs for grid in pair.values()]
        if (longest := max((max(len(grid), len(grid[0])) for grid in grids), default=0)) > size:
            raise DatasetError(
                f"task {name}: a grid has {longest} rows or columns, more than a board of --size {size}; leave the "
                "task out (--tasks) or take a larger board"
            )
        learned = task["train"] if held_out else task["train"] + [p for p in task["test"] if "output" in p]
        asked = task["test"] if held_out else []
        if held_out and not (asked and all("output" in pair for pair in asked)):
            raise DatasetError(
                f"task {name} is for testing and has no test pair, or one without output; write the output into its "
                "file, put a solutions file beside the challenges, or import it with --split train"
            )
        group: dict[str, list[_Puzzle]] = {"train": [], "test": []}
        for augmentation in _distinct(augmentations, rng):
            identifiers.append(augmentation.name(name))
            upright = int(rng.random() * len(learned))
            placed = augmentation != Augmentation()
            examples = [
                _example(pair, augmentation, size, rng if placed and index != upright else None)
                for index, pair in enumerate(learned)
            ]
            group["train"].append((len(identifiers) - 1, examples))
            group["test"].append((len(identifiers) - 1, [_example(pair, augmentation, size) for pair in asked]))
        for part, pairs in (("train", learned), ("test", asked)):
            if pairs:
                groups[part].append(group[part])
    if not any(groups.values()):
        raise DatasetError("no task has a pair with an output, so there is nothing to learn or to ask")
    return {part: _split(found) for part, found in groups.items() if found}, identifiers


def _distinct(count: int, rng: np.random.Generator) -> list[Augmentation]:
    """The identity, and `count` others that differ."""
    found = {Augmentation(): None}
    for _ in range(PATIENCE * count):
        if len(found) == count + 1:
            break
        found[Augmentation.draw(rng)] = None
    return list(found)


def _example(
    pair: dict[str, Grid], augmentation: Augmentation, size: int, rng: np.random.Generator | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Question and label of a pair; both grids move to the same random place where `rng` is given."""
    grids = [augmentation.apply(np.array(pair[key], np.int64)) for key in ("input", "output")]
    room = [size - max(grid.shape[axis] for grid in grids) + 1 for axis in (0, 1)]
    top, left = (int(rng.random() * places) if rng else 0 for places in room)
    question, label = (tokens_of(grid, top, left, size) for grid in grids)
    return question, label


def _split(groups: list[list[_Puzzle]]) -> Split:
    puzzles = [puzzle for group in groups for puzzle in group]
    inputs, labels = zip(*(example for _, examples in puzzles for example in examples), strict=True)
    return Split(
        np.array(inputs),
        np.array(labels),
        np.array([identifier for identifier, _ in puzzles]),
        np.cumsum([0, *(len(examples) for _, examples in puzzles)]),
        np.cumsum([0, *map(len, groups)]),
    )
