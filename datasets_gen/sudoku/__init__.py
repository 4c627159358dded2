"""Sudoku with boards of 4, 6 and 9 rows: the rules, symmetries, drawing and parsing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from datasets_gen.family import SquareBoard
from datasets_gen.layout import DatasetError
from datasets_gen.structure import GridSymmetry, Structure, units
from datasets_gen.sudoku.signature import signatures
from datasets_gen.sudoku.solver import solve
from datasets_gen.sudoku.tables import BOXES, geometry
from datasets_gen.sudoku.text import BLANKS, PASSED, boards

UNIT_NAMES = ("row", "column", "box")
STATISTICS: list[Callable[[np.ndarray, np.ndarray], dict[str, np.ndarray]]] = []  # of extensions, from (N, S) digits


@dataclass(frozen=True)
class Sudoku(SquareBoard):
    """Tokens: 0 padding (never used), 1 blank, 2..n+1 the digits. Every cell of the label is scored."""

    size: int = 9

    name = "sudoku"
    rating_name = "guesses"
    rules = "every question has one solution, and every label is it"
    ignored_characters = PASSED

    def __post_init__(self) -> None:
        if self.size not in BOXES:
            raise DatasetError(f"Sudoku size {self.size} is unknown; sizes are {', '.join(map(str, BOXES))}")

    @property
    def box_shape(self) -> tuple[int, int]:
        """Return (rows, columns) of a box."""
        return BOXES[self.size]

    @property
    def characters(self) -> str:
        """Return the characters of the tokens in text; open cells are dots."""
        return ".." + "123456789"[: self.size]

    @property
    def symmetry(self) -> GridSymmetry:
        """Return relabelling and, for sizes 6 and 9, all permutations of rows and columns that preserve the boxes.

        4×4 boards have only relabelling: up to the moves there are 36 minimal puzzles, so that every test puzzle
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
        """Return the grid, its rows, columns and boxes, and the digits."""
        groups = units(self.grid_shape, self.box_shape)
        return Structure(grid=self.grid_shape, groups=groups, symbols=tuple(range(2, self.vocab_size)))

    def fault(self, question: np.ndarray, answer: np.ndarray, relations: np.ndarray | None = None) -> str | None:
        """Return the first broken rule, or the text that the question has other solutions."""
        several = "the question has more than one solution"
        return self.mistake(question, answer) or (several if self.exact(question)[0] > 1 else None)

    def mistake(self, question: np.ndarray, answer: np.ndarray, relations: np.ndarray | None = None) -> str | None:
        """Return the first rule that the answer breaks; the question may have other solutions."""
        for name, tokens, lowest in (("question", question, 1), ("answer", answer, 2)):
            outside = (tokens < lowest) | (tokens >= self.vocab_size)
            if outside.any():
                cell = int(outside.argmax())
                return f"the {name} has token {tokens[cell]} at {self.place(cell)}, not a digit 1-{self.size}"
        changed = (question != 1) & (question != answer)
        if changed.any():
            cell = int(changed.argmax())
            put, clue = answer[cell] - 1, question[cell] - 1
            return f"the answer has {put} at {self.place(cell)}, where the question has the clue {clue}"
        return self._clash(answer, "answer")

    def _clash(self, tokens: np.ndarray, name: str) -> str | None:
        """Return the first digit that occurs twice in a row, column or box, as text."""
        for index, unit in enumerate(geometry(self.size).units):
            digits = tokens[unit].astype(np.int64) - 1
            counts = np.bincount(digits, minlength=self.size + 1)[1:]  # blanks do not clash
            if (counts > 1).any():
                digit = int((counts > 1).argmax()) + 1
                places = " and ".join(self.place(int(cell)) for cell in unit[digits == digit][:2])
                unit_name = f"{UNIT_NAMES[index // self.size]} {index % self.size + 1}"
                return f"{unit_name} of the {name} holds {digit} twice: at {places}"
        return None

    def contradiction(self, question: np.ndarray, relations: np.ndarray | None = None) -> str | None:
        """Return the conflict of two clues, or a text if no grid has all clues."""
        return self._clash(question, "question") or super().contradiction(question)

    def exact(self, question: np.ndarray, relations: np.ndarray | None = None) -> tuple[int, np.ndarray]:
        """Return the number of solutions (2 for more) and one of them."""
        solved = solve((question - 1)[None])
        return int(solved.counts[0]), solved.solutions[0] + 1

    def solved(self, questions: np.ndarray, answers: np.ndarray, relations: np.ndarray | None = None) -> np.ndarray:
        """Return (N,) bool: whether each answer (N, S) keeps every clue and obeys every row, column and box."""
        kept = ((questions == 1) | (questions == answers)).all(1)
        digits = (answers >= 2) & (answers < self.vocab_size)
        bits = np.where(digits, np.uint16(1) << np.where(digits, answers - 2, 0).astype(np.uint16), 0)
        seen = np.bitwise_or.reduce(bits[:, geometry(self.size).units], axis=2)  # (N, 3n)
        return kept & (seen == (1 << self.size) - 1).all(1)

    def valid(self, questions: np.ndarray, answers: np.ndarray, relations: np.ndarray | None = None) -> np.ndarray:
        """Return (N,) bool: whether each answer is right and the only solution."""
        valid = self.solved(questions, answers) & ((questions > 0) & (questions < self.vocab_size)).all(1)
        valid[valid] = solve(questions[valid] - 1).counts == 1
        return valid

    def features(self, questions: np.ndarray, answers: np.ndarray) -> dict[str, np.ndarray]:
        """Return the number of clues (N,), and the statistics of extensions if every label is a solution."""
        clues = {"clues": (questions > 1).sum(1)}
        if not self.solved(questions, answers).all():
            return clues
        return {name: of for measure in STATISTICS for name, of in measure(questions - 1, answers - 1).items()} | clues

    def signatures(self, questions: np.ndarray, answers: np.ndarray, relations: np.ndarray | None = None) -> np.ndarray:
        """Return hashes (N,) uint64, equal for symmetric copies of a puzzle."""
        return signatures(questions - 1, answers - 1)

    def draw(self, tokens: np.ndarray, question: np.ndarray | None = None, relations: np.ndarray | None = None) -> str:
        """Return the board (S,) as text with lines between boxes; digits of cells open in `question` get a prime."""
        height, width = self.box_shape
        given = tokens > 1 if question is None else question > 1
        cells = [
            f" {self.characters[token]}{' ' if fixed or token < 2 else chr(39)}"
            for token, fixed in zip(tokens.tolist(), given.tolist(), strict=True)
        ]
        lines = []
        for row in range(self.size):
            if row and row % height == 0:
                lines.append("+".join(["-" * (3 * width + 1)] * (self.size // width)))
            starts = range(row * self.size, (row + 1) * self.size, width)
            lines.append("|".join("".join(cells[start : start + width]) + " " for start in starts).rstrip())
        return "\n".join(lines)

    def sized(self, text: str) -> Sudoku:
        """Return the Sudoku with the number of typed cells, or this one if no size has as many."""
        cells = len("".join(boards(text)[:1])) or sum(character not in self.ignored_characters for character in text)
        return Sudoku(next((size for size in BOXES if size**2 == cells), self.size))

    def texts(self, text: str) -> list[str]:
        """Return the puzzles of a file: boards of one or n lines; if it has none, its lines without comments."""
        return boards(text) or [line for line in super().texts(text) if not line.startswith("#")]

    def parse(self, text: str) -> np.ndarray:
        """Parse the tokens (S,) of a board in any form that `boards` accepts."""
        texts = boards(text)
        if len(texts) > 1:
            raise DatasetError(f"{len(texts)} puzzles; solve a file of several with --output ANSWERS.csv")
        return super().parse("".join(texts) or "\n".join(self.texts(text)))

    @property
    def typed_as(self) -> dict[str, int]:
        """Return the token of each character; several characters mean an open cell."""
        return super().typed_as | dict.fromkeys(BLANKS, 1)
