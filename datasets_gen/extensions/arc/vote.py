"""The score of ARC as TRM computes it (evaluators/arc.py): predictions are turned back from augmentations and vote."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from datasets_gen.extensions.arc.puzzles import Augmentation, board_of, crop
from datasets_gen.extensions.arc.tasks import Task, tasks_asked
from datasets_gen.layout import DatasetError, read_identifiers, read_split

Key = tuple[tuple[int, ...], bytes]  # a grid, hashable


class Score(NamedTuple):
    """pass@K: the mean over tasks of the share of a task's test inputs whose output is among K attempts."""

    pass_at: dict[int, float]  # by K
    by_task: dict[str, dict[int, float]]
    attempts: dict[str, list[list[np.ndarray]]]  # by task and test input: up to max K grids, the best first
    unanswered: list[tuple[str, int]]  # (task, number of the test input) that no prediction is for; counted as wrong


def score(
    identifiers: Sequence[str],
    inputs: np.ndarray,
    outputs: np.ndarray,
    halting: np.ndarray,
    tasks: dict[str, Task],
    ks: Iterable[int] = (1, 2),
) -> Score:
    """pass@K of predictions for augmented puzzles.

    A prediction is cropped (`crop`), its augmentation undone, and the grid that results has one vote
    for the test input that the cropped, turned back question is. Grids are ordered by (votes, mean halting value), both
    high first, at equality by which came first; the first K are the attempts.

    identifiers: N names of puzzles, `TASK|||t3|||0918273645`. inputs, outputs: (N, S) questions and predicted tokens.
    halting: (N,) in [0, 1], the sigmoid of the halting logit; zeros for a model without one. tasks: the test tasks
    with their outputs (`datasets_gen.extensions.arc.tasks.tasks_asked`).

    Raises:
        DatasetError: an identifier or an input of no test task, or a test input without its output.
    """
    ks = tuple(ks)
    questions = {name: [_key(np.array(pair["input"])) for pair in task["test"]] for name, task in tasks.items()}
    grids: dict[Key, np.ndarray] = {}
    votes: dict[tuple[str, Key], dict[Key, list[float]]] = defaultdict(lambda: defaultdict(list))
    for identifier, question, output, value in zip(identifiers, inputs, outputs, halting, strict=True):
        name, augmentation = Augmentation.of(identifier)
        asked, (grid, answer) = turned_back(question, augmentation)[1], turned_back(output, augmentation)
        if asked not in questions.get(name, ()):
            raise DatasetError(f"{identifier!r}: no test task has this name and input")
        grids[answer] = grid
        votes[name, asked][answer].append(float(value))
    by_task: dict[str, dict[int, float]] = {}
    attempts: dict[str, list[list[np.ndarray]]] = {}
    unanswered = []
    for name, task in tasks.items():
        hits: list[list[bool]] = []
        attempts[name] = []
        for number, (asked, pair) in enumerate(zip(questions[name], task["test"], strict=True)):
            if "output" not in pair:
                raise DatasetError(f"task {name}: test pair {number + 1} has no output to compare with")
            ranked = _ranked(votes[name, asked])
            if not ranked:
                unanswered.append((name, number))
            attempts[name].append([grids[key] for key in ranked[: max(ks)]])
            hits.append([_key(np.array(pair["output"])) in ranked[:k] for k in ks])
        by_task[name] = dict(zip(ks, np.mean(hits, axis=0).tolist(), strict=True))
    pass_at = {k: float(np.mean([shares[k] for shares in by_task.values()])) for k in ks}
    return Score(pass_at, by_task, attempts, unanswered)


def vote(
    directory: Path, name: str, identifiers: np.ndarray, inputs: np.ndarray, outputs: np.ndarray, halting: np.ndarray
) -> dict[str, Any]:
    """`score` of predictions for the split `name` of a set; identifiers: (N,) numbers. JSON-ready.

    pass_at: by K. tasks: how many; unanswered: test inputs that no prediction is for.
    """
    metadata, split = read_split(directory, name)
    names = read_identifiers(directory, metadata)
    asked = [names[number] for number in identifiers.tolist()]
    found = score(asked, inputs, outputs, halting, tasks_asked(directory, names, split))
    passed = {str(k): share for k, share in found.pass_at.items()}
    return {"pass_at": passed, "tasks": len(found.by_task), "unanswered": len(found.unanswered)}


def turned_back(tokens: np.ndarray, augmentation: Augmentation) -> tuple[np.ndarray, Key]:
    """The grid of a board (S,) at its top left corner before it was augmented, and its key."""
    grid = augmentation.undo(crop(board_of(tokens)))
    return grid, _key(grid)


def _ranked(votes: dict[Key, list[float]]) -> list[Key]:
    """Grids by their number of votes, then by the mean of what was voted with."""
    return sorted(votes, key=lambda key: (len(votes[key]), sum(votes[key]) / len(votes[key])), reverse=True)


def _key(grid: np.ndarray) -> Key:
    return grid.shape, grid.astype(np.uint8).tobytes()
