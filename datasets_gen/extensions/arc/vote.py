"""Scores ARC as TRM does (evaluators/arc.py): predictions are transformed back from augmentations, and vote."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from datasets_gen.extensions.arc.puzzles import Augmentation, board_of, crop
from datasets_gen.extensions.arc.tasks import Grid, Task, tasks_asked
from datasets_gen.layout import DatasetError, read_identifiers, read_split

MISSING = [[0, 0], [0, 0]]
Key = tuple[tuple[int, ...], bytes]  # a grid, hashable


def score(
    identifiers: Sequence[str],
    inputs: np.ndarray,
    outputs: np.ndarray,
    halting: np.ndarray,
    tasks: dict[str, Task],
    ks: Iterable[int] = (1, 2),
) -> dict[str, Any]:
    """Return pass@K of predictions for augmented puzzles: the mean over tasks of the share of inputs solved.

    A prediction is cropped (`crop`) and its augmentation inverted; the resulting grid is one vote for the test input
    that the question, transformed in the same way, equals. Grids are sorted by votes, then by mean halting value, both
    descending, then by their order; the first K are the attempts.

    identifiers: N names of puzzles, `TASK|||t3|||0918273645`. inputs, outputs: (N, S) questions and predicted tokens.
    halting: (N,) in [0, 1], the sigmoid of the halting logit; zeros for a model without one. tasks: the test tasks
    (`datasets_gen.extensions.arc.tasks.tasks_asked`); an output that they lack counts as wrong.

    Returns:
        pass_at: by K. tasks: their number. unanswered: the number of test inputs without a prediction, which count as
        wrong. submission: ARC Prize's submission.json, two attempts for every test input of every task.
    """
    asked = {name: [_key(np.array(pair["input"])) for pair in task["test"]] for name, task in tasks.items()}
    votes: dict[tuple[str, Key], dict[Key, list[float]]] = defaultdict(lambda: defaultdict(list))
    for identifier, question, output, value in zip(identifiers, inputs, outputs, halting, strict=True):
        name, augmentation = Augmentation.of(identifier)
        grid, answer = (_key(augmentation.undo(crop(board_of(tokens)))) for tokens in (question, output))
        if grid not in asked.get(name, ()):
            raise DatasetError(f"{identifier!r}: no test task has this name and input")
        votes[name, grid][answer].append(float(value))
    hits: dict[int, list[float]] = {k: [] for k in ks}
    unanswered = 0
    submission = {}
    for name, task in tasks.items():
        ranked = [_ranked(votes[name, grid]) for grid in asked[name]]
        right = [_key(np.array(pair.get("output", []))) for pair in task["test"]]
        submission[name] = [_attempts(best) for best in ranked]
        unanswered += ranked.count([])
        for k, shares in hits.items():
            shares.append(float(np.mean([key in best[:k] for key, best in zip(right, ranked, strict=True)])))
    pass_at = {str(k): float(np.mean(shares)) for k, shares in hits.items()}
    return {"pass_at": pass_at, "tasks": len(tasks), "unanswered": unanswered, "submission": submission}


def vote(
    directory: Path, name: str, identifiers: np.ndarray, inputs: np.ndarray, outputs: np.ndarray, halting: np.ndarray
) -> dict[str, Any]:
    """Return `score` of predictions for the split `name` of a set; identifiers: (N,) numbers."""
    metadata, split = read_split(directory, name)
    names = read_identifiers(directory, metadata)
    asked = [names[number] for number in identifiers.tolist()]
    return score(asked, inputs, outputs, halting, tasks_asked(directory, names, split))


def _ranked(votes: dict[Key, list[float]]) -> list[Key]:
    """Return the grids sorted by their number of votes, then by the mean weight of the votes."""
    return sorted(votes, key=lambda key: (len(votes[key]), sum(votes[key]) / len(votes[key])), reverse=True)


def _attempts(ranked: list[Key]) -> dict[str, Grid]:
    """Return the first two grids; a missing one is the sample submission's, since both attempts must be grids."""
    grids = [np.frombuffer(cells, np.uint8).reshape(shape).tolist() for shape, cells in ranked if cells]
    return dict(zip(("attempt_1", "attempt_2"), [*grids, MISSING, MISSING], strict=False))


def _key(grid: np.ndarray) -> Key:
    return grid.shape, grid.astype(np.uint8).tobytes()
