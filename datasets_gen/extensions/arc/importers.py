"""`python -m datasets_gen import arc`."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from datasets_gen.arguments import described
from datasets_gen.extensions.arc.build import arc_splits
from datasets_gen.extensions.arc.puzzles import SIDE, Arc
from datasets_gen.extensions.arc.tasks import TASKS, Task, read_tasks, task_files
from datasets_gen.importers import BESIDE, FORMATS, HINTS, Format, placed
from datasets_gen.layout import DatasetError

EXAMPLE = """\
  ARC-AGI-1, -2    the folders of their repositories, a file for each task
                   python -m datasets_gen import arc data/training data/evaluation --output-dir data/arc
                   or the challenges and solutions files of the combined (Kaggle) form, side by side
                   python -m datasets_gen import arc arc-agi_training_challenges.json \\
                       arc-agi_evaluation_challenges.json --augmentations 100 --output-dir data/arc
                   a few small tasks on a small board, for training and testing without a GPU:
                   python -m datasets_gen import arc arc-agi_training_challenges.json --split test \\
                       --tasks 3c9b0459,67a3c6ac --size 10 --augmentations 50 --output-dir data/arc-few
"""
OPTIONS: dict[str, dict[str, Any]] = {
    "tasks": {"metavar": "ID,ID", "help": "only these tasks"},
    "augmentations": {
        "type": int, "default": 20, "metavar": "N", "help": "copies of every task besides itself (20; papers: 1000)"
    },
    "size": {
        "type": int, "default": SIDE, "metavar": "N", "help": f"rows and columns of the board (default {SIDE})"
    },
    "seed": {"type": int, "default": 0, "help": "of the augmentations (default 0)"},
}  # fmt: skip
TRAIN_OR_TEST = {word: split if split == "train" else "test" for word, split in HINTS.items()}


def from_arc(options: argparse.Namespace) -> dict[str, Any]:
    """Training and test tasks, augmented."""
    if options.split == "validation":
        raise DatasetError("--split validation: ARC has training and test tasks; give train or test")
    tasks: dict[str, dict[str, Task]] = {"train": {}, "test": {}}
    for split, sources in placed(task_files(options.sources), options.split, TRAIN_OR_TEST).items():
        for source in sources:
            found = read_tasks(source)
            if twice := sorted(found.keys() & (tasks["train"] | tasks["test"]).keys()):
                raise DatasetError(f"task {twice[0]} of {source} is in another source, too; leave one of them out")
            tasks[split] |= found
    if options.tasks is not None:
        names = {name.strip() for name in options.tasks.split(",")}
        if unknown := names - (tasks["train"] | tasks["test"]).keys():
            raise DatasetError(f"no task {min(unknown)!r} in the sources; give names of their tasks")
        tasks = {part: {name: found[name] for name in found if name in names} for part, found in tasks.items()}
    unsolved = sum("output" not in pair for task in tasks["train"].values() for pair in task["test"])
    if unsolved:
        print(f"warning: {unsolved} test pairs of training tasks have no solution and are left out", file=sys.stderr)
    made_by = {"augmentations": options.augmentations, "size": options.size, "seed": options.seed}
    splits, identifiers = arc_splits(tasks["train"], tasks["test"], **made_by)
    return {
        "splits": splits,
        **described(Arc(options.size)),
        "identifiers": identifiers,
        "provenance": {"options": made_by | ({"tasks": options.tasks} if options.tasks else {})},
        "files": {TASKS: tasks["test"]} if tasks["test"] else {},
    }


FORMATS["arc"] = Format(from_arc, EXAMPLE, OPTIONS, "files or folders of tasks")
BESIDE[TASKS] = read_tasks
