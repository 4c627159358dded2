"""What a puzzle set is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from datasets_gen.structure import Structure

SPLITS = ("train", "validation", "test")
ARRAYS = ("inputs", "labels", "puzzle_identifiers", "puzzle_indices", "group_indices")
OPTIONAL = ("ratings", "sources")  # (P,), ours
SHARED = (  # what all splits of a set have in common
    *("vocab_size", "seq_len", "pad_id", "ignore_label_id", "blank_identifier_id", "num_puzzle_identifiers"),
    *("task", "structure"),
)
MOST = 2**31 - 1  # tokens, cells and identifiers are counted in int32


class DatasetError(ValueError):
    """A puzzle set, or a request for one, that breaks a rule; the text says where, why and what mends it."""


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
    structure: Structure | None = Field(None, description="grid, groups and symbols; none: as the family has them")

    @model_validator(mode="after")
    def _structure_fits(self) -> Metadata:
        fault = self.structure and self.structure.fault(self.seq_len, self.vocab_size)
        if fault:
            raise ValueError(f"structure: {fault}")
        return self


@dataclass(frozen=True)
class Split:
    """The arrays of one split, all its sets joined. Tokens uint8 or int32, indices int64, a missing rating is NaN."""

    inputs: np.ndarray  # (N, S)
    labels: np.ndarray  # (N, S)
    puzzle_identifiers: np.ndarray  # (P,)
    puzzle_indices: np.ndarray  # (P+1,)
    group_indices: np.ndarray  # (G+1,)
    ratings: np.ndarray | None = None  # (P,)
    sources: np.ndarray | None = None  # (P,)

    @classmethod
    def of_puzzles(
        cls,
        inputs: np.ndarray,
        labels: np.ndarray,
        ratings: np.ndarray | None = None,
        sources: np.ndarray | None = None,
    ) -> Split:
        """One example = one puzzle = one group, all with identifier 0 (Sudoku, mazes, addition)."""
        indices = np.arange(len(inputs) + 1)
        return cls(inputs, labels, np.zeros(len(inputs), np.int64), indices, indices, ratings, sources)

    def metadata(self, task: Mapping[str, Any]) -> dict[str, Any]:
        """The counts that dataset.json states of this split."""
        puzzles, groups = len(self.puzzle_indices) - 1, len(self.group_indices) - 1
        return {
            "seq_len": self.inputs.shape[1],
            "total_groups": groups,
            "total_puzzles": puzzles,
            "mean_puzzle_examples": len(self.inputs) / max(puzzles, 1),
            "sets": ["all"],
            "task": dict(task),
        }
