"""Sudoku with boards of 4, 6 and 9 rows: the rules, symmetries, drawing and parsing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from datasets_gen.layout import DatasetError
from datasets_gen.ratings import BIN_NAMES, bins_of
from datasets_gen.structure import SquareBoard, Structure, partitions
from datasets_gen.sudoku.geometry import BOXES, geometry
from datasets_gen.sudoku.signature import signatures
from datasets_gen.sudoku.solver import solve
from datasets_gen.sudoku.text import RULING, draw, parse
from datasets_gen.symmetry import GridSymmetry

UNIT_NAMES = ("row", "column", "box")


@dataclass(frozen=True)
class Sudoku(SquareBoard):
    """Tokens: 0 padding (never used), 1 blank, 2..n+1 the digits. Every cell of the label is scored.

    Raises:
        DatasetError: a size without a box shape.
    """

    size: int = 9

    def __post_init__(self) -> None:
        if self.size not in BOXES:
            raise DatasetError(f"Sudoku size {self.size} is unknown; sizes are {', '.join(map(str, BOXES))}")

    @property
    def vocab_size(self) -> int:
        """Padding, blank and the digits."""
        return self.size + 2

    judges = True
    causal, end, vote = False, None, None
    fills: ClassVar[dict[int, str]] = {}
    rating_name = "guesses"
    rules = "every question has one solution, and every label is it"

    @property
    def box_shape(self) -> tuple[int, int]:
        """(rows, columns) of a box."""
        return BOXES[self.size]

    @property
    def glyphs(self) -> str:
        """Open cells are blank."""
        return "  " + "123456789"[: self.size]

    @property
    def characters(self) -> str:
        """Open cells are dots."""
        return self.glyphs.replace(" ", ".")

    @property
    def symmetry(self) -> GridSymmetry:
        """Relabelling, and for sizes 6 and 9 every move of rows and columns that keeps boxes whole.

        On 4×4 boards only relabelling: there are 36 minimal puzzles up to the moves, and a test puzzle
        would be a moved training puzzle.
        """
        height, width = BOXES[self.size]
        return GridSymmetry(
            bands=self.size // height,
            rows_per_band=height,
            stacks=self.size // width,
            columns_per_stack=width,
            transpose=height == width and self.size != 4,
            relabel=(2, self.size + 1),
            moves=self.size != 4,
        )

    @property
    def structure(self) -> Structure:
        """The grid, its rows, columns and boxes, and the digits."""
        row, column = np.indices(self.grid_shape)
        height, width = self.box_shape
        box = row // height * (self.size // width) + column // width
        return Structure(
            grid=self.grid_shape,
            groups=partitions({"row": row, "column": column, "box": box}),
            symbols=tuple(range(2, self.vocab_size)),
        )

    @property
    def task(self) -> dict[str, Any]:
        """What dataset.json keeps."""
        return {"name": "sudoku", "size": self.size}

    def fault(self, question: np.ndarray, answer: np.ndarray) -> str | None:
        """The first broken rule of one puzzle (S,), (S,), with rows and columns counted from 1."""
        if broken := self.mistake(question, answer):
            return broken
        if solve((question - 1)[None]).counts[0] > 1:
            return "the question has more than one solution"
        return None

    def mistake(self, question: np.ndarray, answer: np.ndarray) -> str | None:
        """The same, of the answer alone: the question may have other solutions."""
        for name, tokens, lowest in (("question", question, 1), ("answer", answer, 2)):
            outside = (tokens < lowest) | (tokens >= self.vocab_size)
            if outside.any():
                cell = int(outside.argmax())
                return f"the {name} holds token {tokens[cell]} at {self._place(cell)}: no digit 1-{self.size}"
        changed = (question != 1) & (question != answer)
        if changed.any():
            cell = int(changed.argmax())
            return (
                f"the answer puts {answer[cell] - 1} at {self._place(cell)}, "
                f"where the question gives {question[cell] - 1}"
            )
        return self._clash(answer, "answer")

    def _clash(self, tokens: np.ndarray, name: str) -> str | None:
        """The first digit that stands twice in a row, column or box."""
        for index, unit in enumerate(geometry(self.size).units):
            digits = tokens[unit].astype(np.int64) - 1
            counts = np.bincount(digits, minlength=self.size + 1)[1:]  # blanks do not clash
            if counts.max() > 1:
                digit = int(counts.argmax()) + 1
                places = " and ".join(self._place(int(cell)) for cell in unit[digits == digit][:2])
                unit_name = f"{UNIT_NAMES[index // self.size]} {index % self.size + 1}"
                return f"{unit_name} of the {name} holds {digit} twice: at {places}"
        return None

    def contradiction(self, question: np.ndarray) -> str | None:
        """The clash of two clues, or that no grid has them all."""
        if clash := self._clash(question, "question"):
            return clash
        return None if solve((question - 1)[None], limit=1).counts[0] else "no grid has all of these clues"

    def _place(self, cell: int) -> str:
        return f"row {cell // self.size + 1}, column {cell % self.size + 1}"

    def solved(self, questions: np.ndarray, answers: np.ndarray) -> np.ndarray:
        """(N, S), (N, S) -> (N,) bool: the answer keeps every clue and obeys every row, column and box."""
        kept = ((questions == 1) | (questions == answers)).all(1)
        digits = (answers >= 2) & (answers < self.vocab_size)
        bits = np.where(digits, np.uint16(1) << np.where(digits, answers - 2, 0).astype(np.uint16), 0)
        seen = np.bitwise_or.reduce(bits[:, geometry(self.size).units], axis=2)  # (N, 3n)
        return kept & (seen == (1 << self.size) - 1).all(1)

    def valid(self, questions: np.ndarray, answers: np.ndarray) -> np.ndarray:
        """(N,) bool: solved, and the question has no other solution. `fault` says what is wrong elsewhere."""
        valid = self.solved(questions, answers) & ((questions > 0) & (questions < self.vocab_size)).all(1)
        valid[valid] = solve(questions[valid] - 1).counts == 1
        return valid

    def given(self, question: np.ndarray) -> np.ndarray:
        """(S,) bool: the clues."""
        return question > 1

    def frames(self, question: np.ndarray, answers: np.ndarray) -> np.ndarray:
        """Whole boards."""
        return np.concatenate([question[None], answers.astype(question.dtype)])

    def rating_bins(self, ratings: np.ndarray) -> tuple[list[str], np.ndarray]:
        """The bins of datasets_gen/ratings.py that occur."""
        found, index = np.unique(bins_of(ratings), return_inverse=True)
        return [BIN_NAMES[b] for b in found], index

    def features(self, questions: np.ndarray, answers: np.ndarray) -> dict[str, np.ndarray]:
        """Statistics (N,) by name."""
        return {"clues": (questions > 1).sum(1)}

    def ratings(self, questions: np.ndarray, answers: np.ndarray) -> np.ndarray | None:
        """None: guesses depend on the solver that counts them."""
        return None

    def signatures(self, questions: np.ndarray, answers: np.ndarray) -> np.ndarray:
        """(N,) uint64, equal for puzzles that a symmetry turns into one another."""
        return signatures(questions - 1, answers - 1)

    def draw(self, tokens: np.ndarray, question: np.ndarray | None = None) -> str:
        """The board (S,) as text; a digit that `question` leaves open gets a prime."""
        given = tokens > 1 if question is None else question > 1
        return draw(np.where(tokens > 1, tokens - 1, 0), given)

    def sized(self, text: str) -> Sudoku:
        """The Sudoku with as many cells as are typed; itself where none has."""
        cells = sum(character not in RULING for character in text)
        return Sudoku(next((size for size in BOXES if size**2 == cells), self.size))

    def parse(self, text: str) -> np.ndarray:
        """Tokens (S,) of a typed board, '.' or 0 for open cells.

        Raises:
            DatasetError: a foreign character or a wrong number of cells.
        """
        return parse(text, self.size) + 1
