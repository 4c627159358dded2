"""The score of ARC: predictions for augmented puzzles are turned back and vote."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import numpy as np

from datasets_gen.arc import grid_of, hash_of
from datasets_gen.arc.augment import Augmentation
from datasets_gen.arc.build import Task
from datasets_gen.layout import DatasetError


class Score(NamedTuple):
    """`solved` is the mean over tasks of the share of its test grids that one of the attempts hits."""

    solved: float
    by_task: dict[str, float]
    attempts: dict[str, list[list[np.ndarray]]]  # by task and test grid, the best first


def score(
    identifiers: list[str],
    inputs: np.ndarray,
    outputs: np.ndarray,
    tasks: dict[str, Task],
    *,
    confidences: np.ndarray | None = None,
    attempts: int = 2,
) -> Score:
    """Let predictions vote.

    identifiers: N names of augmented puzzles. inputs, outputs: (N, S) the questions and the predicted tokens.
    tasks: the test tasks with their solutions. confidences: (N,), the halting logit for example, break ties
    between grids with as many votes by their mean. A test grid's attempts are the grids with most votes.

    Raises:
        DatasetError: an identifier or an input of no test task.
    """
    confidences = np.zeros(len(inputs)) if confidences is None else confidences
    grids: dict[int, np.ndarray] = {}
    ballots: dict[tuple[str, int], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    questions = {
        name: {hash_of(np.array(pair["input"])): index for index, pair in enumerate(task["test"])}
        for name, task in tasks.items()
    }
    for identifier, question, answer, confidence in zip(identifiers, inputs, outputs, confidences, strict=True):
        name, augmentation = Augmentation.of(identifier)
        asked = questions.get(name, {}).get(hash_of(augmentation.undo(grid_of(question))))
        if asked is None:
            raise DatasetError(f"{identifier!r}: no test task has this name and input")
        grid = augmentation.undo(grid_of(answer))
        key = hash_of(grid)
        grids[key] = grid
        ballots[name, asked][key].append(float(confidence))
    by_task: dict[str, float] = {}
    chosen: dict[str, list[list[np.ndarray]]] = {}
    for name, task in tasks.items():
        hits = []
        chosen[name] = []
        for index, pair in enumerate(task["test"]):
            votes = ballots[name, index]
            ranked = sorted(votes, key=lambda key: (len(votes[key]), np.mean(votes[key])), reverse=True)
            chosen[name].append([grids[key] for key in ranked[:attempts]])
            hits.append(hash_of(np.array(pair["output"])) in ranked[:attempts])
        by_task[name] = float(np.mean(hits))
    return Score(float(np.mean(list(by_task.values()))), by_task, chosen)
