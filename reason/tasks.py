"""Binds a data set to its puzzle: rules, drawing and symmetries, all from datasets_gen."""

from __future__ import annotations

from datasets_gen.layout import DatasetError, Metadata
from datasets_gen.puzzles import Puzzle, family_of

__all__ = ["Puzzle", "family_of", "task_of"]


def task_of(metadata: Metadata) -> Puzzle | None:
    """The puzzle family of a set; None for a set of unknown kind, which still trains but has no rules."""
    try:
        puzzle = family_of(metadata.task, metadata.seq_len, metadata.vocab_size)
    except (DatasetError, KeyError, TypeError, ValueError):
        return None
    return puzzle if (puzzle.seq_len, puzzle.vocab_size) == (metadata.seq_len, metadata.vocab_size) else None
