"""`python -m datasets_gen import arc`: converts tasks to splits, with one identifier for every augmented puzzle."""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np

from datasets_gen.arguments import described, whole_number
from datasets_gen.extensions.arc.puzzles import EOS, SIDE, Arc, Augmentation, tokens_of
from datasets_gen.extensions.arc.tasks import TASKS, Grid, Task, read_tasks, task_files
from datasets_gen.importers import BESIDE, FORMATS, HINTS, Format, placed
from datasets_gen.layout import DatasetError, Split
from datasets_gen.parallel import seeded

EXAMPLE = """\
  ARC-AGI-1, -2    the folders of their repositories, a file for each task
                   python -m datasets_gen import arc data/training data/evaluation --output-dir data/arc
                   or the challenges and solutions files of the combined (Kaggle) form, side by side
                   python -m datasets_gen import arc arc-agi_training_challenges.json \\
                       arc-agi_evaluation_challenges.json --augmentations 100 --output-dir data/arc
                   re-arc, whose files are lists of pairs: rename re_arc/tasks, because the name determines the split
                   python -m datasets_gen import arc re_arc/training data/evaluation --augmentations 0 \\
                       --output-dir data/re-arc
                   a few small tasks on a small board, for training and testing without a GPU:
                   python -m datasets_gen import arc arc-agi_training_challenges.json --split test \\
                       --tasks 3c9b0459,67a3c6ac --size 10 --augmentations 50 --output-dir data/arc-few
"""
OPTIONS: dict[str, dict[str, Any]] = {
    "tasks": {"metavar": "ID,ID", "help": "only these tasks"},
    "augmentations": {
        "type": whole_number, "default": 20, "metavar": "N", "help": "augmented copies of each task (20; papers: 1000)"
    },
    "size": {
        "type": int, "default": SIDE, "metavar": "N", "help": f"rows and columns of the board (default {SIDE})"
    },
    "seed": {"type": whole_number, "default": 0, "help": "of the augmentations (default 0)"},
}  # fmt: skip
PATIENCE = 20  # draws for every augmentation that is to be new

_Puzzle = tuple[int, list[tuple[np.ndarray, np.ndarray]]]  # identifier, examples
TRAIN_OR_TEST = {word: split if split == "train" else "test" for word, split in HINTS.items()}


def from_arc(options: argparse.Namespace) -> dict[str, Any]:
    """Read training and test tasks, and augment them."""
    if options.split == "validation":
        raise DatasetError("--split validation: ARC has only training and test tasks; type train or test")
    tasks: dict[str, dict[str, Task]] = {"train": {}, "test": {}}
    for split, sources in placed(task_files(options.sources), options.split, TRAIN_OR_TEST).items():
        for source in sources:
            of_source = read_tasks(source)
            if twice := sorted(of_source.keys() & (tasks["train"] | tasks["test"]).keys()):
                raise DatasetError(f"task {twice[0]} of {source} is also in another source; remove one of them")
            tasks[split] |= of_source
    if options.tasks is not None:
        names = {name.strip() for name in options.tasks.split(",")}
        if unknown := names - (tasks["train"] | tasks["test"]).keys():
            raise DatasetError(f"no task {min(unknown)!r} in the sources; type names of their tasks")
        tasks = {part: {name: some[name] for name in some if name in names} for part, some in tasks.items()}
    unsolved = sum("output" not in pair for task in tasks["train"].values() for pair in task["test"])
    if unsolved:
        print(f"warning: {unsolved} test pairs of training tasks have no solution and are skipped", file=sys.stderr)
    missing = sum("output" not in pair for task in tasks["test"].values() for pair in task["test"])
    if missing:
        print(f"warning: {missing} test pairs have no solution: no answer to them counts as right", file=sys.stderr)
    made_by = {"augmentations": options.augmentations, "size": options.size, "seed": options.seed}
    splits, identifiers = arc_splits(tasks["train"], tasks["test"], **made_by)
    return {
        "splits": splits,
        **described(Arc(options.size)),
        "identifiers": identifiers,
        "provenance": {"options": made_by | ({"tasks": options.tasks} if options.tasks else {})},
        "files": {TASKS: tasks["test"]} if tasks["test"] else {},
    }


def arc_splits(
    train_tasks: dict[str, Task],
    test_tasks: dict[str, Task],
    *,
    augmentations: int = 20,
    size: int = SIDE,
    seed: int = 0,
) -> tuple[dict[str, Split], list[str]]:
    """Make the splits train and test, and the list of identifiers.

    Train: every pair of the training tasks, and the demonstrations of the test tasks. Test: the test pairs of the
    test tasks, under every augmentation. A group is a task, a puzzle one augmentation of it, its examples are the
    pairs. In train all pairs of a puzzle but one are at a random place of the board of size × size cells.
    """
    identifiers = ["<blank>"]
    groups: dict[str, list[list[_Puzzle]]] = {"train": [], "test": []}
    for order, (name, task) in enumerate({**train_tasks, **test_tasks}.items()):
        rng = seeded(seed, order)
        grids = [grid for pairs in task.values() for pair in pairs for grid in pair.values()]
        if (longest := max((max(len(grid), len(grid[0])) for grid in grids), default=0)) > size:
            raise DatasetError(
                f"task {name}: a grid has {longest} rows or columns, more than a board of --size {size}; exclude "
                "the task (--tasks) or choose a larger board"
            )
        if name not in test_tasks:
            pairs = {"train": task["train"] + [pair for pair in task["test"] if "output" in pair], "test": []}
        elif task["test"]:
            pairs = task
        else:
            raise DatasetError(f"task {name} is for testing and has no test pair; import it with --split train")
        group: dict[str, list[_Puzzle]] = {part: [] for part in groups if pairs[part]}
        for augmentation in _distinct(augmentations, rng):
            identifiers.append(augmentation.name(name))
            upright = int(rng.random() * len(pairs["train"]))
            for part, puzzles in group.items():
                placed = part == "train" and augmentation != Augmentation()
                examples = [
                    _example(pair, augmentation, size, rng if placed and index != upright else None)
                    for index, pair in enumerate(pairs[part])
                ]
                puzzles.append((len(identifiers) - 1, examples))
        for part, puzzles in group.items():
            groups[part].append(puzzles)
    if not any(groups.values()):
        raise DatasetError("no task has a pair with an output, so the set would be empty")
    return {part: _split(some) for part, some in groups.items() if some}, identifiers


def _distinct(count: int, rng: np.random.Generator) -> list[Augmentation]:
    """Return the identity and `count` other augmentations, all different."""
    different = {Augmentation(): None}
    for _ in range(PATIENCE * count):
        if len(different) == count + 1:
            break
        different[Augmentation.draw(rng)] = None
    return list(different)


def _example(
    pair: dict[str, Grid], augmentation: Augmentation, size: int, rng: np.random.Generator | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return question and label of a pair; if `rng` is given, both grids move to the same random position.

    The label of an unknown output consists of end tokens only, and no prediction equals it.
    """
    grids = [augmentation.apply(np.array(pair[key], np.int64)) for key in ("input", "output") if key in pair]
    room = [size - max(grid.shape[axis] for grid in grids) + 1 for axis in (0, 1)]
    top, left = (int(rng.random() * places) if rng else 0 for places in room)
    boards = [*(tokens_of(grid, top, left, size) for grid in grids), np.full(size * size, EOS, np.uint8)]
    return boards[0], boards[1]


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


FORMATS["arc"] = Format(from_arc, EXAMPLE, OPTIONS, "files or folders of tasks")
BESIDE[TASKS] = read_tasks
