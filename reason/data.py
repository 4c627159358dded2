"""Files → batches. The set, its sampling and its augmentation are on the device."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from datasets_gen.layout import DatasetError, Metadata, read_split
from datasets_gen.symmetry import GridSymmetry
from reason.models.base import IGNORE, Batch, Shape
from reason.settings.base import BaseConfig, Elsewhere

if TYPE_CHECKING:
    from datasets_gen.puzzles import Puzzle


def task_of(metadata: Metadata) -> Puzzle | None:
    """The puzzle family of a set; None for a set of unknown kind, which still trains but has no rules."""
    from datasets_gen.puzzles import family_of  # compiles rules with numba: not for a config alone

    try:
        puzzle = family_of(metadata.task, metadata.seq_len, metadata.vocab_size)
    except (DatasetError, KeyError, TypeError, ValueError):
        return None
    return puzzle if (puzzle.seq_len, puzzle.vocab_size) == (metadata.seq_len, metadata.vocab_size) else None


def shape_of(metadata: Metadata) -> Shape:
    """The shape that a model is built for."""
    from datasets_gen.puzzles import structure_of

    return Shape(
        seq_len=metadata.seq_len,
        vocab_size=metadata.vocab_size,
        num_puzzle_identifiers=metadata.num_puzzle_identifiers,
        structure=structure_of(metadata),
    )


def shape_of_puzzle(puzzle: Puzzle) -> Shape:
    """The shape of a puzzle family."""
    return Shape(seq_len=puzzle.seq_len, vocab_size=puzzle.vocab_size, structure=puzzle.structure)


AT_ONCE = 2**13  # examples whose labels are looked at together


class DataConfig(BaseConfig):
    """The puzzle set and its augmentation."""

    directory: str | None = Field(
        None, description="the data set's folder, data=DIR for short; DIR,DIR: sets of several sizes, taken in turn"
    )
    generate: str | None = Field(
        None, description="what `reason generate` is given to make a missing set; several: between semicolons"
    )
    augment: bool = Field(True, description="random symmetry of every drawn puzzle (digits relabelled, grid moved)")
    hints: int = Field(
        0, ge=0, description="every second drawn puzzle is given up to so many cells of its answer (where digits are)"
    )

    @property
    def directories(self) -> list[str]:
        """The folders, one by one."""
        return [] if self.directory is None else [name.strip() for name in self.directory.split(",")]

    @property
    def commands(self) -> list[str]:
        """What `generate` holds for the folders in turn, one by one."""
        return [] if self.generate is None else [command.strip() for command in self.generate.split(";")]

    def inert(self) -> dict[str, str]:
        """How a missing set is made."""
        return {"generate": Elsewhere("it makes the set where it is missing")}


# Of dataset.json: where a set is from, and counts that follow from its arrays.
NOT_READ = {"provenance", "sources", "sets", "total_groups", "total_puzzles", "mean_puzzle_examples"}


class PuzzleData:
    """One split of a puzzle set on a device: N examples in P puzzles in G groups, tokens as stored."""

    def __init__(self, directory: Path | str, split: str, device: torch.device | str = "cpu"):
        """Read and check the split.

        Raises:
            DatasetError: it is missing, torn or inconsistent.
        """
        self.directory, self.split = Path(directory), split
        self.metadata, arrays = read_split(directory, split)
        self.device = torch.device(device)
        self.ratings = arrays.ratings  # (P,) numpy, or None
        self.inputs, self.labels, self.identifiers, self._examples_of, self._puzzles_of = (
            torch.from_numpy(array).to(self.device)
            for array in (
                arrays.inputs,
                arrays.labels,
                arrays.puzzle_identifiers,
                arrays.puzzle_indices,
                arrays.group_indices,
            )
        )
        puzzle_of_example = torch.searchsorted(
            self._examples_of, torch.arange(len(self.inputs), device=self.device), right=True
        )
        self._puzzle_of_example = puzzle_of_example - 1

    @property
    def groups(self) -> int:
        """Base puzzles, each drawn once an epoch."""
        return len(self._puzzles_of) - 1

    @property
    def fingerprint(self) -> str:
        """SHA-256 of all that training reads: tokens, their owners, and the fields of dataset.json."""
        digest = hashlib.sha256()
        stated = self.metadata.model_dump(mode="json", include=set(type(self.metadata).model_fields) - NOT_READ)
        digest.update(json.dumps(stated, sort_keys=True).encode())
        for array in (self.inputs, self.labels, self.identifiers, self._examples_of, self._puzzles_of):
            whole = array.to(torch.int64 if array.dtype == torch.int64 else torch.int32)  # however it is stored
            digest.update(str(tuple(whole.shape)).encode())
            digest.update(whole.cpu().numpy().tobytes())
        return digest.hexdigest()

    def __len__(self) -> int:
        """Examples."""
        return len(self.inputs)

    @property
    def shape(self) -> Shape:
        """The shape that a model is built for."""
        return shape_of(self.metadata)

    def ratings_of(self, examples: Tensor) -> np.ndarray | None:
        """Difficulty of examples (N,): that of the puzzle each belongs to."""
        if self.ratings is None:
            return None
        return np.asarray(self.ratings[self._puzzle_of_example[examples].cpu().numpy()])

    def scored_examples(self, count: int) -> Tensor:
        """(N,) those of the first `count` examples that have a scored cell."""
        ignored = IGNORE if self.metadata.ignore_label_id is None else self.metadata.ignore_label_id
        scored = torch.zeros(count, dtype=torch.bool, device=self.device)
        for first in range(0, count, AT_ONCE):
            labels = self.labels[first : min(first + AT_ONCE, count)].int()
            scored[first : first + AT_ONCE] = ((labels != IGNORE) & (labels != ignored)).any(1)
        return scored.nonzero().flatten()

    def take(self, examples: Tensor) -> Batch:
        """Examples (B,) -> Batch, labels that are not scored set to IGNORE."""
        labels = self.labels[examples].long()
        if self.metadata.ignore_label_id is not None:
            labels = labels.masked_fill(labels == self.metadata.ignore_label_id, IGNORE)
        identifiers = self.identifiers[self._puzzle_of_example[examples]].long()
        return Batch(self.inputs[examples].long(), labels, identifiers)

    def example_of_group(self, groups: Tensor, generator: torch.Generator) -> Tensor:
        """A random puzzle of each group (B,), and a random example of it."""
        puzzles = _random_member(self._puzzles_of, groups, generator)
        return _random_member(self._examples_of, puzzles, generator)


def _random_member(indices: Tensor, owners: Tensor, generator: torch.Generator) -> Tensor:
    first, count = indices[owners], indices[owners + 1] - indices[owners]
    chance = torch.rand(len(owners), generator=generator, device=owners.device)
    return first + (chance * count).long().clamp(max=count - 1)


class Sampler:
    """An endless stream of batches: every group once an epoch, in random order, under random symmetries.

    It has its own random generator: the stream is a function of the seed.
    """

    def __init__(self, data: PuzzleData, batch_size: int, seed: int, symmetry: GridSymmetry | None, hints: int = 0):
        self.data, self.batch_size, self.symmetry, self.hints = data, batch_size, symmetry, hints
        self.generator = torch.Generator(data.device).manual_seed(seed)
        self._order = torch.empty(0, dtype=torch.int64, device=data.device)
        self._symbols = torch.tensor(data.shape.structure.symbols, device=data.device)

    def draw(self) -> Batch:
        """The next batch_size puzzles."""
        while len(self._order) < self.batch_size:
            epoch = torch.randperm(self.data.groups, generator=self.generator, device=self.data.device)
            self._order = torch.cat([self._order, epoch])
        groups, self._order = self._order[: self.batch_size], self._order[self.batch_size :]
        batch = self.data.take(self.data.example_of_group(groups, self.generator))
        if self.hints:
            batch = give_hints(batch, self._symbols, self.hints, self.generator)
        return batch if self.symmetry is None else augment(batch, self.symmetry, self.generator)

    def state_dict(self) -> dict[str, Any]:
        """Order, position and generator state: what the next batch depends on."""
        return {"order": self._order, "generator": self.generator.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a saved state.

        Raises:
            ValueError: the order names groups that the set does not have.
        """
        order = state["order"]
        if order.ndim != 1 or order.dtype != torch.int64 or not ((order >= 0) & (order < self.data.groups)).all():
            raise ValueError("sampler.order names groups that the set does not have")
        self._order = order.to(self.data.device)
        self.generator.set_state(state["generator"])


class Moved(NamedTuple):
    """A symmetry for each of B rows."""

    names: Tensor | None  # (B, tokens): the new name of each token
    source: Tensor | None  # (B, S): the source cell of each cell

    def apply(self, tokens: Tensor) -> Tensor:
        """Tokens (B, S), perhaps IGNORE, under the symmetries."""
        if self.names is not None:
            tokens = torch.where(tokens == IGNORE, IGNORE, self.names.gather(1, tokens.clamp(min=0)))
        return tokens if self.source is None else tokens.gather(1, self.source)

    def undo(self, tokens: Tensor) -> Tensor:
        """The tokens (B, S) of which `apply` gives these."""
        if self.source is not None:
            tokens = torch.empty_like(tokens).scatter(1, self.source, tokens)
        return tokens if self.names is None else self.names.argsort(dim=1).gather(1, tokens)


TURNS = 8  # of a square, one of which leaves it as it is
STILL = Moved(None, None)  # every row as it is


def augment(batch: Batch, symmetry: GridSymmetry, generator: torch.Generator) -> Batch:
    """Apply a random symmetry to each row, the same to question and label: tokens relabelled, cells moved."""
    moved = draw_symmetries(len(batch.inputs), symmetry, generator)
    return Batch(moved.apply(batch.inputs), moved.apply(batch.labels), batch.identifiers)


def give_hints(batch: Batch, symbols: Tensor, most: int, generator: torch.Generator) -> Batch:
    """Every second row on average with 1 … `most` (uniform) of its cells without a symbol filled in from the answer.

    A puzzle with more of its answer is another puzzle with the same one: 1,000 puzzles of 56 empty cells have two
    million neighbours of three hints or fewer each. (ours)
    """
    rows, device = len(batch.inputs), batch.inputs.device
    empty = ~torch.isin(batch.inputs, symbols) & torch.isin(batch.labels, symbols)  # (B, S)
    order = torch.rand(batch.inputs.shape, generator=generator, device=device).masked_fill(~empty, 2.0).argsort(dim=1)
    given = torch.randint(1, most + 1, (rows, 1), generator=generator, device=device)
    given = given * (torch.rand(rows, 1, generator=generator, device=device) < 0.5)
    chosen = torch.empty_like(order).scatter_(1, order, torch.arange(order.shape[1], device=device).expand_as(order))
    return batch._replace(inputs=torch.where(empty & (chosen < given), batch.labels, batch.inputs))


def draw_symmetries(
    rows: int, symmetry: GridSymmetry, generator: torch.Generator, tries: Tensor | int | None = None
) -> Moved:
    """A random symmetry for each row, on the generator's device.

    tries: the number of each row's try at its puzzle, 0 for the first: of the eight turns of a square they take one
    after the other, beginning with none.
    """
    device = generator.device
    names = None
    first, last = symmetry.relabel
    if last > first:
        fixed = torch.arange(first, device=device).expand(rows, first)
        names = torch.cat([fixed, first + _permutations(rows, last - first + 1, generator, device)], dim=1)
    if symmetry.turns:
        drawn = torch.randint(TURNS, (rows,), generator=generator, device=device) if tries is None else tries
        return Moved(names, _turned(symmetry.rows_per_band, torch.as_tensor(drawn, device=device).expand(rows)))
    return Moved(names, _cell_sources(rows, symmetry, generator, device) if symmetry.moves else None)


def _permutations(rows: int, size: int, generator: torch.Generator, device: torch.device) -> Tensor:
    """(rows, size) independent uniform permutations."""
    return torch.rand(rows, size, generator=generator, device=device).argsort(dim=1)


def _moves(rows: int, bands: int, per_band: int, generator: torch.Generator, device: torch.device) -> Tensor:
    """(rows, bands · per_band): the source of each line; bands are permuted, and lines within each band."""
    band = _permutations(rows, bands, generator, device)[:, :, None]
    line = _permutations(rows * bands, per_band, generator, device).view(rows, bands, per_band)
    return (band * per_band + line).flatten(1)


def _turned(size: int, which: Tensor) -> Tensor:
    """(rows, cells): the source cell of each cell of a square grid in one of its eight turns, `which` (rows,) mod 8."""
    grid = torch.arange(size**2, device=which.device).view(1, size, size).expand(len(which), -1, -1)
    bits = which.view(-1, 1, 1)
    grid = torch.where(bits & 1 > 0, grid.flip(1), grid)
    grid = torch.where(bits & 2 > 0, grid.flip(2), grid)
    return torch.where(bits & 4 > 0, grid.transpose(1, 2), grid).flatten(1)


def _cell_sources(rows: int, symmetry: GridSymmetry, generator: torch.Generator, device: torch.device) -> Tensor:
    """(rows, cells): the source cell of each cell."""
    down = _moves(rows, symmetry.bands, symmetry.rows_per_band, generator, device)
    across = _moves(rows, symmetry.stacks, symmetry.columns_per_stack, generator, device)
    width = across.shape[1]
    grid = down[:, :, None] * width + across[:, None, :]  # (rows, height, width)
    if symmetry.transpose:
        turned = torch.rand(rows, 1, 1, generator=generator, device=device) < 0.5
        grid = torch.where(turned, grid.transpose(1, 2), grid)
    return grid.flatten(1)
