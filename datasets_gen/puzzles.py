"""What every puzzle family offers, and which family a data set belongs to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, Protocol

import numpy as np

from datasets_gen.addition import Addition
from datasets_gen.arc import Arc
from datasets_gen.layout import DatasetError, Metadata
from datasets_gen.maze import Maze
from datasets_gen.structure import Structure
from datasets_gen.sudoku import Sudoku
from datasets_gen.symmetry import GridSymmetry


class Puzzle(Protocol):
    """A puzzle family with its size: a small frozen dataclass, one per family."""

    @property
    def vocab_size(self) -> int:
        """Tokens, padding included."""

    @property
    def seq_len(self) -> int:
        """Cells S of an example."""

    @property
    def rating_name(self) -> str:
        """What a rating counts."""

    @property
    def rules(self) -> str:
        """What `verify` says when they hold."""

    @property
    def judges(self) -> bool:
        """Do the rules alone tell whether an answer is right? Then `solved` and `mistake` may be asked."""

    @property
    def grid_shape(self) -> tuple[int, int]:
        """(rows, columns) of the board; one row for text."""

    @property
    def box_shape(self) -> tuple[int, int] | None:
        """(rows, columns) of the boxes that a drawing rules off; None: it has none."""

    @property
    def characters(self) -> str:
        """How text shows each token: one character each."""

    @property
    def glyphs(self) -> str:
        """What a picture writes into a cell of each token: one character each, blank where the fill says it."""

    @property
    def fills(self) -> Mapping[int, str]:
        """The colour, #rrggbb, of each token that a picture shows by colour."""

    @property
    def causal(self) -> bool:
        """Is a cell's label the token after it?"""

    @property
    def end(self) -> int | None:
        """The token that ends a generated answer; None: answers are not generated."""

    @property
    def symmetry(self) -> GridSymmetry | None:
        """What keeps the rules, and perhaps the label; None: nothing does."""

    @property
    def structure(self) -> Structure:
        """Grid, groups and interchangeable symbols, as far as the family has them."""

    @property
    def task(self) -> dict[str, Any]:
        """What dataset.json keeps of it: {"name": ..., sizes ...}."""

    @property
    def vote(self) -> Callable[..., dict[str, Any]] | None:
        """How copies of a puzzle vote (see datasets_gen/arc/vote.py); None: each example is a puzzle by itself.

        (directory, split, identifiers (N,), inputs (N, S), outputs (N, S), halting (N,)) -> pass_at, tasks, unanswered.
        """

    def fault(self, question: np.ndarray, answer: np.ndarray) -> str | None:
        """The first broken rule of one example (S,), (S,), in words with the cells; None when all hold."""

    def solved(self, questions: np.ndarray, answers: np.ndarray) -> np.ndarray:
        """(N, S), (N, S) -> (N,) bool: the answer keeps the question's cells and obeys every rule."""

    def mistake(self, question: np.ndarray, answer: np.ndarray) -> str | None:
        """What `solved` objects to in one answer (S,), in words with the cells; None when it is solved."""

    def contradiction(self, question: np.ndarray) -> str | None:
        """Why a question (S,) that a person typed has no answer, in words; None: it has one."""

    def valid(self, questions: np.ndarray, answers: np.ndarray) -> np.ndarray:
        """(N,) bool: where `fault` would be None; fast."""

    def given(self, question: np.ndarray) -> np.ndarray:
        """(S,) bool: cells that a question (S,) fixes and a drawing sets apart."""

    def frames(self, question: np.ndarray, answers: np.ndarray) -> np.ndarray:
        """What a drawing shows of a question (S,) and the answers after each step (T, S): (T + 1, S) tokens."""

    def rating_bins(self, ratings: np.ndarray) -> tuple[list[str], np.ndarray] | None:
        """Names of the bins that ratings (N,) fall into, and the index of each one's bin; None: the family has none."""

    def features(self, questions: np.ndarray, answers: np.ndarray) -> dict[str, np.ndarray]:
        """Statistics (N,) of examples, by name."""

    def ratings(self, questions: np.ndarray, answers: np.ndarray) -> np.ndarray | None:
        """What the stored ratings (N,) must be, where that follows from the puzzle."""

    def signatures(self, questions: np.ndarray, answers: np.ndarray) -> np.ndarray:
        """(N,) uint64, equal for puzzles that are symmetric copies and must not lie in two splits."""

    def draw(self, tokens: np.ndarray, question: np.ndarray | None = None) -> str:
        """The board (S,) as text; cells that `question` leaves open are set apart."""

    def sized(self, text: str) -> Puzzle:
        """The member of the family that a typed board is of, by its number of cells; itself where none fits."""

    def parse(self, text: str) -> np.ndarray:
        """The board (S,) that a person typed; DatasetError says what is malformed."""


class UnknownPuzzle(DatasetError):
    """A set of a kind that no family describes: it still trains, without rules, drawing or symmetries."""


FAMILIES: dict[str, Any] = {"sudoku": Sudoku, "maze": Maze, "addition": Addition, "arc": Arc}
PUBLISHED: dict[tuple[int, int], Puzzle] = {
    (81, 11): Sudoku(9),
    (900, 6): Maze(30),
    (900, 12): Arc(30),
}  # by cells and tokens


def puzzle_of(metadata: Metadata) -> Puzzle:
    """The family of a set: from our `task` field, or from the shapes of a published set.

    Raises:
        UnknownPuzzle: no family fits.
        DatasetError: the `task` field names a family and does not describe it, or has other cells or tokens.
    """
    puzzle = family_of(metadata.task, metadata.seq_len, metadata.vocab_size)
    if (metadata.seq_len, metadata.vocab_size) != (puzzle.seq_len, puzzle.vocab_size):
        raise DatasetError(
            f"dataset.json states {metadata.seq_len} cells and {metadata.vocab_size} tokens, but {puzzle.task} has "
            f"{puzzle.seq_len} and {puzzle.vocab_size}"
        )
    return puzzle


def structure_of(metadata: Metadata) -> Structure:
    """Grid, groups and symbols: as the set declares them, else as its family has them, else nothing."""
    if metadata.structure is not None:
        return metadata.structure
    try:
        structure = puzzle_of(metadata).structure
    except (DatasetError, KeyError, TypeError, ValueError):
        return Structure()
    return Structure() if structure.fault(metadata.seq_len, metadata.vocab_size) else structure


def family_of(task: Mapping[str, Any], seq_len: int, vocab_size: int) -> Puzzle:
    """The family that a `task` field names, or where it names none the one that the shape tells.

    Raises:
        UnknownPuzzle: no family fits.
        DatasetError: the family that is named has no such settings.
    """
    settings = {key: value for key, value in task.items() if key != "labels"}
    name = settings.pop("name", None)
    if not isinstance(name, str) or name not in FAMILIES:
        if name is None and (seq_len, vocab_size) in PUBLISHED:
            return PUBLISHED[seq_len, vocab_size]
        raise UnknownPuzzle(
            f"no puzzle family for task {dict(task) or '(none stated)'} with {seq_len} cells and "
            f"{vocab_size} tokens; it still trains, without rules, drawing or symmetries"
        )
    kinds = {field.name: getattr(field.type, "__name__", field.type) for field in fields(FAMILIES[name])}
    for key, value in settings.items():
        if type(value).__name__ != kinds.get(key):
            expected = f"{kinds[key]} expected" if key in kinds else f"not one of {', '.join(kinds)}"
            raise DatasetError(f"task {dict(task)} describes no {name}: {key} is {value!r}, {expected}")
    family: Puzzle = FAMILIES[name](**settings)
    return family
