"""What a puzzle set is made of, and its writing: whole, or not at all."""

from __future__ import annotations

import contextlib
import errno
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from datasets_gen.layout.files import DatasetError, check_name
from datasets_gen.layout.mapped import parts
from datasets_gen.scratch import scratch_beside
from datasets_gen.structure import Structure

SPLITS = ("train", "validation", "test")
ARRAYS = ("inputs", "labels", "puzzle_identifiers", "puzzle_indices", "group_indices")
OPTIONAL = ("ratings", "sources", "relations")  # (P,), (P,) and (N, M, 1 + C + P'), ours
SHARED = (  # what all splits of a set have in common
    *("vocab_size", "seq_len", "pad_id", "ignore_label_id", "blank_identifier_id", "num_puzzle_identifiers"),
    *("task", "structure"),
)
MOST = 2**31 - 1  # tokens, cells and identifiers are counted in int32


class Metadata(BaseModel):
    """dataset.json: HRM's and TRM's fields, then ours (which their readers ignore)."""

    model_config = ConfigDict(extra="allow")

    pad_id: int
    ignore_label_id: int | None
    blank_identifier_id: int
    vocab_size: int = Field(gt=0, le=MOST)
    seq_len: int = Field(gt=0, le=MOST)
    num_puzzle_identifiers: int = Field(gt=0, le=MOST)
    total_groups: int = Field(ge=0)
    mean_puzzle_examples: float
    sets: list[str] = Field(min_length=1)
    total_puzzles: int | None = None
    task: dict[str, Any] = Field(default_factory=dict, description='the puzzle: {"name": "sudoku", "size": 6}')
    provenance: dict[str, Any] = Field(default_factory=dict, description="command, seed and version that made it")
    sources: list[str] = Field(default_factory=list, description="where imported puzzles come from")
    structure: Structure | None = Field(None, description="grid, groups, relations and symbols; null: of the family")

    @model_validator(mode="after")
    def _structure_fits(self) -> Metadata:
        fault = self.structure and self.structure.fault(self.seq_len, self.vocab_size)
        if fault:
            raise ValueError(f"structure: {fault}")
        return self


@dataclass(frozen=True)
class Split:
    """The arrays of one split, all its sets joined. Tokens uint8 or int32, indices int64, a missing rating is NaN.

    Arrays of large splits are mapped, and their indices may be int32.
    """

    inputs: np.ndarray  # (N, S)
    labels: np.ndarray  # (N, S)
    puzzle_identifiers: np.ndarray  # (P,)
    puzzle_indices: np.ndarray  # (P+1,)
    group_indices: np.ndarray  # (G+1,)
    ratings: np.ndarray | None = None  # (P,)
    sources: np.ndarray | None = None  # (P,)
    relations: np.ndarray | None = None  # (N, M, 1 + C + P'), see datasets_gen/layout

    def relations_of(self, example: int) -> np.ndarray | None:
        """The instances (M, 1 + C + P') of one example."""
        return None if self.relations is None else self.relations[example]

    def parts(self) -> Iterator[tuple[int, Split]]:
        """Part after part of the examples: the number of the first one, and a split of these examples alone.

        Each example of a part is a puzzle of its own: identifiers, ratings and sources are left out.
        """
        for rows in parts(len(self.inputs), self.inputs, self.labels, self.relations):
            relations = None if self.relations is None else np.asarray(self.relations[rows])
            inputs, labels = np.asarray(self.inputs[rows]), np.asarray(self.labels[rows])
            yield rows.start, Split.of_puzzles(inputs, labels, relations=relations)

    @classmethod
    def of_puzzles(
        cls,
        inputs: np.ndarray,
        labels: np.ndarray,
        ratings: np.ndarray | None = None,
        sources: np.ndarray | None = None,
        relations: np.ndarray | None = None,
    ) -> Split:
        """One example = one puzzle = one group, all with identifier 0 (Sudoku, mazes, addition)."""
        indices = np.arange(len(inputs) + 1)
        return cls(inputs, labels, np.zeros(len(inputs), np.int64), indices, indices, ratings, sources, relations)


def check_free(directory: Path) -> None:
    """Refuse a folder that is in use.

    Raises:
        DatasetError: something is there already.
    """
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise DatasetError(f"{directory} already exists and is not empty; name another --output-dir or remove it")


@contextlib.contextmanager
def atomic_directory(directory: Path) -> Iterator[Path]:
    """A scratch folder that becomes `directory` when the block ends well and vanishes when it does not.

    Raises:
        DatasetError: `directory` exists and is not empty.
    """
    directory = Path(directory)
    check_free(directory)
    with scratch_beside(directory) as scratch:
        yield scratch
        if directory.exists():
            directory.rmdir()
        scratch.rename(directory)


def write_dataset(
    directory: Path | str,
    splits: Mapping[str, Split],
    *,
    task: Mapping[str, Any],
    vocab_size: int,
    pad_id: int = 0,
    ignore_label_id: int | None = 0,
    blank_identifier_id: int = 0,
    identifiers: list[str] | None = None,
    sources: list[str] | None = None,
    structure: Structure | None = None,
    provenance: Mapping[str, Any] | None = None,
    files: Mapping[str, Any] | None = None,
) -> None:
    """Write every split, or nothing: the folder appears in one rename.

    Tokens are stored as uint8 where the vocabulary fits, indices as int32. `files` are JSON files at the root.
    """
    identifiers = identifiers or ["<blank>"]
    for name in splits:
        check_name(name, "split")
    with atomic_directory(Path(directory)) as scratch:
        for file, content in {"identifiers.json": identifiers, **(files or {})}.items():
            (scratch / file).write_text(json.dumps(content), encoding="utf-8")
        for name, split in splits.items():
            folder = scratch / name
            folder.mkdir()
            arrays = {key: getattr(split, key).astype(np.int32) for key in ARRAYS[2:]}
            for key in ARRAYS[:2]:
                tokens = getattr(split, key)
                small = vocab_size <= 256 and tokens.min(initial=0) >= 0 and tokens.max(initial=0) <= 255
                arrays[key] = tokens.astype(np.uint8 if small else np.int32)  # some ignore -100
            arrays |= {key: getattr(split, key) for key in OPTIONAL if getattr(split, key) is not None}
            for key, array in arrays.items():
                _save(folder / f"all__{key}.npy", array)
            puzzles, groups = len(split.puzzle_indices) - 1, len(split.group_indices) - 1
            metadata = Metadata(
                seq_len=split.inputs.shape[1],
                total_groups=groups,
                total_puzzles=puzzles,
                mean_puzzle_examples=len(split.inputs) / max(puzzles, 1),
                sets=["all"],
                task=dict(task),
                pad_id=pad_id,
                ignore_label_id=ignore_label_id,
                blank_identifier_id=blank_identifier_id,
                vocab_size=vocab_size,
                num_puzzle_identifiers=len(identifiers),
                provenance=dict(provenance or {}),
                sources=sources or [],
                structure=structure,
            )
            (folder / "dataset.json").write_text(metadata.model_dump_json(indent=2) + "\n", encoding="utf-8")


def _save(path: Path, array: np.ndarray) -> None:
    try:
        np.save(path, array)
    except OSError as error:
        if error.errno is not None:
            raise
        raise OSError(errno.ENOSPC, "the disk is full", str(path)) from error  # numpy reports a short write so
