"""The puzzles that a run trains on: one set, or several of one family in several sizes, taken in turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from datasets_gen.structure import GridSymmetry
from reason.data import PuzzleData, Sampler, task_of
from reason.models.base import Batch, Shape


class TrainingSets:
    """The train splits; a model is built for the shape of the first, and `add_shape` lets it read the others."""

    def __init__(self, parts: Sequence[PuzzleData]):
        self.parts = tuple(parts)
        first = self.parts[0]
        self.shape: Shape = first.shape
        self.metadata, self.device = first.metadata, first.device
        self.directory = ",".join(str(part.directory) for part in self.parts)

    @property
    def groups(self) -> int:
        """Base puzzles of all sets, each drawn (not always trained on) once an epoch if the sets are of one size."""
        return sum(part.groups for part in self.parts)


class Samplers:
    """A stream of batches for each set: supervision step number i takes the next batch of set i mod n."""

    def __init__(self, data: TrainingSets, batch_size: int, seed: int, augment: bool = False, hints: int = 0):
        self.data, self.batch_size = data, batch_size
        self.each = [
            Sampler(part, batch_size, seed + number, _symmetry(part) if augment else None, hints)
            for number, part in enumerate(data.parts)
        ]

    def draw(self, index: int) -> Batch:
        """The next batch of the set whose turn it is."""
        return self.each[index % len(self.each)].draw()

    def blanks(self, rows: int) -> list[Batch]:
        """For each set a batch of its first puzzle, for its shape alone."""
        first = torch.zeros(rows, dtype=torch.int64, device=self.data.device)
        return [part.take(first) for part in self.data.parts]

    def state_dict(self) -> dict[str, Any]:
        """Everything that decides what is drawn next."""
        return {"each": [sampler.state_dict() for sampler in self.each]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where `state_dict` was taken."""
        for sampler, kept in zip(self.each, state["each"], strict=True):
            sampler.load_state_dict(kept)


def _symmetry(part: PuzzleData) -> GridSymmetry | None:
    """That of the set's family, if it maps labels to labels."""
    task = task_of(part.metadata)
    return task.symmetry if task is not None and task.symmetry is not None and task.symmetry.keeps_label else None
