"""Files → batches. The set, its sampling and its augmentation are on the device; tokens of large sets stay on disk."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from datasets_gen.layout import DatasetError, Metadata, read_split
from datasets_gen.puzzles import Puzzle, known_puzzle, structure_of
from datasets_gen.structure import Structure
from reason.data.augmentation import augment, give_hints
from reason.models.base import IGNORE, Batch, Shape


def shape_of(metadata: Metadata, marks: tuple[int, ...] = ()) -> Shape:
    """Return the shape that a model is built for; `marks` of training labels."""
    return Shape(
        seq_len=metadata.seq_len,
        vocab_size=metadata.vocab_size,
        num_puzzle_identifiers=metadata.num_puzzle_identifiers,
        structure=structure_of(metadata),
        marks=marks,
    )


def shape_of_puzzle(puzzle: Puzzle) -> Shape:
    """Return the shape of a puzzle family."""
    return Shape(seq_len=puzzle.seq_len, vocab_size=puzzle.vocab_size, structure=puzzle.structure)


AT_ONCE = 2**13  # examples whose labels are checked together


# Fields of dataset.json that name a set's origin, or that follow from its arrays.
NOT_READ = {"provenance", "sources", "sets", "total_groups", "total_puzzles", "mean_puzzle_examples"}


class PuzzleData:
    """One split of a puzzle set on a device: N examples in P puzzles in G groups, tokens as stored.

    Inputs and labels of a large split (see `read_split`) are memory-mapped, and a batch loads its rows; on a GPU it
    then waits for the work queued before it. On a CPU the other arrays are mapped, too.
    """

    def __init__(self, directory: Path | str, split: str, device: torch.device | str = "cpu", marks: bool = False):
        """Load and check the split. marks: labels as `Puzzle.marked` has them, in memory.

        Raises DatasetError if it is missing, damaged or inconsistent, or its puzzles have no marks.
        """
        self.directory, self.split = Path(directory), split
        self.metadata, arrays = read_split(directory, split)
        self.device = torch.device(device)
        self.ratings, self.sources = arrays.ratings, arrays.sources  # (P,) numpy, or None
        tokens = arrays.inputs, arrays.labels
        self.marks: tuple[int, ...] = ()
        if marks:
            puzzle = known_puzzle(self.metadata)
            if puzzle is None or not puzzle.marks:
                raise DatasetError(f"data.marks=true: {directory} holds no mazes; type data.marks=false")
            tokens, self.marks = (arrays.inputs, puzzle.marked(arrays.inputs, arrays.labels)), puzzle.marks
        owners = (arrays.puzzle_identifiers, arrays.puzzle_indices, arrays.group_indices)
        self.inputs, self.labels = (
            torch.from_numpy(array).to("cpu" if isinstance(array, np.memmap) else self.device) for array in tokens
        )
        self.identifiers, self._examples_of, self._puzzles_of = (
            torch.from_numpy(array).to(self.device) for array in owners
        )
        self.instances = arrays.relations  # (N, M, 1 + C + n_cells) numpy, or None
        self.relations = by_relation(arrays.relations, self.metadata.structure, self.device)
        self.shape = shape_of(self.metadata, self.marks)  # the shape that a model is built for

    @property
    def groups(self) -> int:
        """Base puzzles, each drawn once an epoch."""
        return len(self._puzzles_of) - 1

    @property
    def fingerprint(self) -> str:
        """Return the SHA-256 of all training data: tokens, their owners, and the fields of dataset.json."""
        digest = hashlib.sha256()
        stated = self.metadata.model_dump(mode="json", include=set(type(self.metadata).model_fields) - NOT_READ)
        digest.update(json.dumps(stated, sort_keys=True).encode())
        tokens, indices = (self.inputs, self.labels, self.identifiers), (self._examples_of, self._puzzles_of)
        hashed = [*((array, torch.int32) for array in tokens), *((array, torch.int64) for array in indices)]
        for array, kind in [*hashed, *((array, torch.int32) for array in self.relations)]:
            digest.update(str(tuple(array.shape)).encode())
            for rows in array.split(AT_ONCE):
                digest.update(rows.to(kind).cpu().numpy().tobytes())  # independent of the stored type
        return digest.hexdigest()

    def __len__(self) -> int:
        """Return the number of examples."""
        return len(self.inputs)

    def instances_of(self, examples: Tensor) -> np.ndarray | None:
        """Return the instances (B, M, 1 + C + n_cells) of examples (B,) for the rules, or None if the set has none."""
        return None if self.instances is None else self.instances[examples.cpu().numpy()]

    def tokens_of(self, examples: Tensor) -> tuple[np.ndarray, np.ndarray]:
        """Return inputs and labels (B, S) of examples (B,), as stored."""
        inputs, labels = (tokens.cpu().numpy() for tokens in self._tokens(examples))
        return inputs, labels

    def _tokens(self, examples: Tensor) -> list[Tensor]:
        return [tokens[examples.to(tokens.device)].to(self.device) for tokens in (self.inputs, self.labels)]

    def scored_examples(self, count: int) -> Tensor:
        """Return the indices (N,) of the first `count` examples, without those that have no scored cell."""
        ignored = IGNORE if self.metadata.ignore_label_id is None else self.metadata.ignore_label_id
        scored = torch.zeros(count, dtype=torch.bool, device=self.device)
        for part, labels in zip(scored.split(AT_ONCE), self.labels[:count].split(AT_ONCE), strict=True):
            part.copy_(((labels.int() != IGNORE) & (labels.int() != ignored)).any(1))
        return scored.nonzero().flatten()

    def take(self, examples: Tensor) -> Batch:
        """Return the Batch of examples (B,); labels that are not scored become IGNORE."""
        inputs, labels = (tokens.long() for tokens in self._tokens(examples))
        if self.metadata.ignore_label_id is not None:
            labels = labels.masked_fill(labels == self.metadata.ignore_label_id, IGNORE)
        identifiers = self.identifiers[self.puzzle_of(examples)].long()
        relations = tuple(instances[examples] for instances in self.relations)
        return Batch(inputs, labels, identifiers, relations, self.shape)

    def puzzle_of(self, examples: Tensor) -> Tensor:
        """Return the puzzle that each example (B,) belongs to."""
        return torch.searchsorted(self._examples_of, examples.to(self._examples_of.dtype), right=True) - 1

    def example_of_group(self, groups: Tensor, generator: torch.Generator) -> Tensor:
        """Return the index of a random example (B,) of a random puzzle of each group (B,)."""
        return _random_member(self._examples_of, _random_member(self._puzzles_of, groups, generator), generator)


def by_relation(
    rows: np.ndarray | None, structure: Structure | None, device: torch.device | str = "cpu"
) -> tuple[Tensor, ...]:
    """Split rows (N, M, 1 + C + n_cells) into instances (N, M, C + n_cells) by relation; () without relations."""
    tables: list[Tensor] = []
    if rows is None or structure is None:
        return ()
    clues = structure.clues
    for index, relation in enumerate(structure.relations):
        is_own = rows[..., 0] == index
        most = int(is_own.sum(1).max(initial=0))
        first = np.argsort(~is_own, axis=1, kind="stable")[:, :most]  # the puzzle's instances first
        taken = np.where(
            np.take_along_axis(is_own, first, 1)[..., None], np.take_along_axis(rows, first[..., None], 1), -1
        )
        numbers, cells = taken[..., 1 : 1 + relation.clues], taken[..., 1 + clues :]
        width = relation.places or int((cells >= 0).sum(-1).max(initial=0))
        columns = np.concatenate([numbers, cells[..., :width]], axis=-1).astype(np.int16)
        tables.append(torch.from_numpy(columns).to(device))
    return tuple(tables)


def _random_member(indices: Tensor, owners: Tensor, generator: torch.Generator) -> Tensor:
    """Return a member of each owner (B,)."""
    chance = torch.rand(len(owners), generator=generator, device=owners.device)
    first, count = indices[owners], indices[owners + 1] - indices[owners]
    return first + (chance * count).long().clamp(max=count - 1)


class TrainingSets:
    """The train splits; a model is built for the shape of the first, and `add_shape` makes it accept the others."""

    def __init__(self, parts: Sequence[PuzzleData]):
        self.parts = tuple(parts)
        first = self.parts[0]
        self.shape = first.shape
        self.metadata = first.metadata
        self.device = first.device
        self.directory = ",".join(str(part.directory) for part in self.parts)

    @property
    def groups(self) -> int:
        """Base puzzles of all sets, each drawn (not always trained on) once an epoch if the sets are of one size."""
        return sum(part.groups for part in self.parts)


class Sampler:
    """An endless stream of batches: every group once an epoch, in random order, under random symmetries.

    The sampler has a separate random generator: the stream of batches is a function of the seed.
    """

    def __init__(self, data: PuzzleData, batch_size: int, seed: int, augmented: bool = False, hints: int = 0):
        """augmented: use the symmetry of the set's family, if it maps labels to labels."""
        self.data = data
        self.batch_size = batch_size
        self.hints = hints
        symmetry = getattr(known_puzzle(data.metadata), "symmetry", None) if augmented else None
        self.symmetry = symmetry if symmetry is not None and symmetry.keeps_label else None
        self.generator = torch.Generator(data.device).manual_seed(seed)
        self._order = torch.empty(0, dtype=torch.int64, device=data.device)
        self._symbols = torch.tensor(data.shape.structure.alphabet, device=data.device)

    def groups(self) -> Tensor:
        """Return the groups (B,) of the next batch. The host handles the end of an epoch; `batch` does the rest."""
        while len(self._order) < self.batch_size:
            self._order = self._order.clone()  # frees the finished epoch, of which it was a view
            epoch = torch.randperm(self.data.groups, generator=self.generator, device=self.data.device)
            self._order = torch.cat([self._order, epoch])
        groups, self._order = self._order[: self.batch_size], self._order[self.batch_size :]
        return groups

    def batch(self, groups: Tensor) -> Batch:
        """Return a random puzzle of each group, perhaps with hints, under a random symmetry."""
        batch = self.data.take(self.data.example_of_group(groups, self.generator))
        if self.hints:
            batch = give_hints(batch, self._symbols, self.hints, self.generator)
        return batch if self.symmetry is None else augment(batch, self.symmetry, self.generator)

    def state_dict(self) -> dict[str, Any]:
        """Return order, position and generator state, which determine the next batch."""
        return {"order": self._order, "generator": self.generator.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a saved state."""
        self._order = state["order"].to(self.data.device)
        self.generator.set_state(state["generator"])
