"""The base class of puzzle families; its defaults fit boards whose answers are checked by rules."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from datasets_gen.layout import DatasetError, parts
from datasets_gen.structure import GridSymmetry, Structure

FRAME, BARRED = re.compile(r"\+-+\+ *"), re.compile(r"\|(.*)\| *")


class Puzzle(ABC):
    """A puzzle family with its size: a frozen dataclass whose fields are the entries of dataset.json's `task`.

    A family states `name`, its key in `datasets_gen.puzzles.FAMILIES`, `characters`, `grid_shape` and, if it
    `has_rules`, `solved`. N examples of S cells are arrays (N, S) of tokens; token 0 is padding. `relations` are the
    instances of each example, (N, M, 1 + C + n_cells) or of one (M, 1 + C + n_cells) (datasets_gen/layout.py).
    """

    name: ClassVar[str]
    rating_name = "none"  # what a rating counts
    has_rules = True  # True if rules decide whether an answer is right; else `solved` is not called
    multiple_solutions = False  # True if a question may have several right answers by the rules
    colours: ClassVar[Mapping[int, str]] = {}  # #rrggbb of each token that a picture shows by a colour
    draws_constraints = False  # True if `draw` shows more than cells, so that answers are drawn by it, too
    causal = False  # True if a cell's label is the token after it
    answer_contains_question = True  # True if an answer repeats the given cells; else no cell is given
    outside: int | None = None  # the token of cells outside the board, such as a maze's wall
    ignored_characters = " \t\r\n"  # between the cells of a typed board
    marks: tuple[int, ...] = ()  # the answer's token for each further token of `marked`
    end: int | None = None  # the token that ends a generated answer; None: answers are not generated

    @property
    @abstractmethod
    def characters(self) -> str:
        """Return the characters of the tokens in text, one for each token."""

    @property
    @abstractmethod
    def grid_shape(self) -> tuple[int, int]:
        """Return (rows, columns) of the board; one row for text."""

    def solved(self, questions: np.ndarray, answers: np.ndarray, relations: np.ndarray | None = None) -> np.ndarray:
        """Return (N,) bool: whether each answer (N, S) keeps the given cells of its question and obeys every rule."""
        raise NotImplementedError(f"{self.name} has no rules that judge answers")

    @property
    def rules(self) -> str:
        """Return the sentence that `verify` prints if the rules hold."""
        return "every answer is right"

    @property
    def vocab_size(self) -> int:
        """Return the number of tokens V, padding included."""
        return len(self.characters)

    @property
    def seq_len(self) -> int:
        """Return the number of cells S of an example."""
        return self.grid_shape[0] * self.grid_shape[1]

    def on_board(self, cells: np.ndarray) -> np.ndarray:
        """Return the drawn cells (..., rows, columns) of (..., S); a family may also have hidden cells."""
        return cells.reshape(*cells.shape[:-1], *self.grid_shape)

    @property
    def glyphs(self) -> str:
        """Return the characters of the tokens in a picture, one for each token; blank for an open cell or a fill."""
        return self.characters.replace(".", " ")

    @property
    def box_shape(self) -> tuple[int, int] | None:
        """Return (rows, columns) of the boxes that a drawing separates by lines, or None if it has none."""
        return None

    @property
    def symmetry(self) -> GridSymmetry | None:
        """Return the symmetries under which the rules hold, or None."""
        return None

    @property
    def structure(self) -> Structure:
        """Return grid, groups and interchangeable symbols, if the family has them."""
        return Structure(grid=self.grid_shape, outside=self.outside)

    @property
    def task(self) -> dict[str, Any]:
        """Return the entry in dataset.json: the family's name and its fields."""
        return {"name": self.name, **vars(self)}

    def valid(self, questions: np.ndarray, answers: np.ndarray, relations: np.ndarray | None = None) -> np.ndarray:
        """Return (N,) bool: whether each answer is the label that a set must have, so that `fault` is None."""
        rows = [None] * len(questions) if relations is None else relations
        return np.array([self.fault(*each) is None for each in zip(questions, answers, rows, strict=True)], bool)

    def mistake(self, question: np.ndarray, answer: np.ndarray, relations: np.ndarray | None = None) -> str | None:
        """Return the first fault of one answer (S,) as text with its cells, or None if it is solved."""
        rows = None if relations is None else relations[None]
        return None if self.solved(question[None], answer[None], rows)[0] else "the answer breaks a rule"

    def fault(self, question: np.ndarray, answer: np.ndarray, relations: np.ndarray | None = None) -> str | None:
        """Return the first broken rule of one answer (S,) as text, or None if it is valid."""
        return self.mistake(question, answer, relations)

    def place(self, cell: int) -> str:
        """Return a cell's position for an error: rows and columns count from 1, cells without rows from 0."""
        rows, columns = self.grid_shape
        return f"row {cell // columns + 1}, column {cell % columns + 1}" if rows > 1 else f"cell {cell}"

    def reply(self, question: np.ndarray, answer: np.ndarray) -> str | None:
        """Return an answer (S,) in one line, in the usual notation, or None if the board is enough."""
        return None

    def contradiction(self, question: np.ndarray, relations: np.ndarray | None = None) -> str | None:
        """Return the reason why a question (S,) has no answer, or None if no simple check shows one."""
        solution = self.exact(question, relations)
        return None if solution is None or solution[0] else "no answer satisfies all rules and clues"

    def exact(self, question: np.ndarray, relations: np.ndarray | None = None) -> tuple[int, np.ndarray] | None:
        """Solve exactly: the number of solutions (at most 2) and one of them (S,). None: this family has no solver."""
        return None

    def marked(self, questions: np.ndarray, answers: np.ndarray) -> np.ndarray:
        """Return training labels with finer tokens for answers (N, S): `vocab_size` + i is the i-th of `marks`."""
        return answers

    def given(self, question: np.ndarray) -> np.ndarray:
        """Return (S,) bool: the given cells of a question (S,), which a drawing emphasises."""
        if not self.answer_contains_question:
            return np.zeros(question.shape, bool)
        return np.array([character not in "._ " for character in self.characters])[question]

    def frames(self, question: np.ndarray, answers: np.ndarray) -> np.ndarray:
        """Return the drawn tokens (T + 1, S) of a question (S,) and the answers after each step (T, S)."""
        return np.concatenate([question[None], answers.astype(question.dtype)])

    def features(self, questions: np.ndarray, answers: np.ndarray) -> dict[str, np.ndarray]:
        """Return statistics (N,) of examples by name."""
        return {}

    def signatures(self, questions: np.ndarray, answers: np.ndarray, relations: np.ndarray | None = None) -> np.ndarray:
        """Return hashes (N,) uint64, equal for symmetric copies of a puzzle, which must not be in two splits."""
        return row_keys(questions)

    def notes(self, labels: Mapping[str, np.ndarray]) -> list[str]:
        """Return remarks on the answers (N, S) of the splits, one line each."""
        return []

    def draw(self, tokens: np.ndarray, question: np.ndarray | None = None, relations: np.ndarray | None = None) -> str:
        """Return the board (S,) as text; a family may emphasise the cells that are open in `question`."""
        return "\n".join("".join(self.characters[t] for t in row) for row in self.on_board(tokens))

    def sized(self, text: str) -> Self:
        """Return the member of the family with as many cells as a typed board, or this one if no member fits."""
        return self

    def texts(self, text: str) -> list[str]:
        """Return the text of each puzzle in a file; each line is one."""
        return [line for line in text.splitlines() if line.strip()]

    def typed(self, text: str) -> tuple[np.ndarray, np.ndarray | None]:
        """Parse a typed puzzle: tokens (S,), and relations (M, 1 + C + n_cells) or None if the family has none."""
        return self.parse(text), None

    @property
    def typed_as(self) -> dict[str, int]:
        """Return the token of each character that may be typed for a cell."""
        return {character: token for token, character in enumerate(self.characters)}

    def parse(self, text: str) -> np.ndarray:
        """Parse the tokens (S,) of a typed board; `ignored_characters` that are not cells are skipped."""
        token_of, (rows, columns) = self.typed_as, self.on_board(np.arange(self.seq_len)).shape
        lines = [[c for c in line if c in token_of or c not in self.ignored_characters] for line in text.split("\n")]
        for number, line in enumerate(lines, 1):
            if (other := next((c for c in line if c not in token_of), None)) is not None:
                cells = "".join(token_of)
                raise DatasetError(f"{other!r} in line {number} is not a cell of {self.name}; its cells are {cells!r}")
        counts = [len(line) for line in lines if line]
        if sum(counts) != rows * columns or (len(counts) == rows and counts != [columns] * rows):
            size = f"{rows}x{columns} = {rows * columns}"
            raise DatasetError(f"{sum(counts)} cells, {counts} by line; type the {size} of a board of {self.name}")
        tokens = [token_of[character] for line in lines for character in line]
        return np.array(tokens, np.uint8 if self.vocab_size <= 256 else np.int32)


class SquareBoard(Puzzle):
    """A family of boards of `size` × `size` cells."""

    size: int

    @property
    def grid_shape(self) -> tuple[int, int]:
        """Return (rows, columns) of the board."""
        return self.size, self.size

    def draw(self, tokens: np.ndarray, question: np.ndarray | None = None, relations: np.ndarray | None = None) -> str:
        """Return the board (S,) as lines of characters in a frame."""
        frame = "+" + "-" * self.size + "+"
        return "\n".join([frame, *(f"|{row}|" for row in super().draw(tokens).split("\n")), frame])


def row_keys(rows: np.ndarray) -> np.ndarray:
    """Return a hash (N,) uint64 of each row (N, ...) of whole numbers."""
    width = math.prod(rows.shape[1:])
    weights = 2 * np.random.Generator(np.random.PCG64(width)).integers(0, 2**62, width, np.uint64) + 1
    keys = [rows[some].reshape(some.stop - some.start, width).astype(np.uint64) @ weights for some in parts(len(rows))]
    return np.concatenate([np.zeros(0, np.uint64), *keys])


def character_of(characters: str, token: int) -> str:
    """Return the character of a token; '?' for a predicted token that the puzzle does not have."""
    return characters[token] if 0 <= token < len(characters) else "?"


def drawn_lines(text: str) -> list[str]:
    """Return the lines of a drawing without the empty lines before and after it."""
    drawn = text.replace("\r\n", "\n").removesuffix("\r").strip("\n")
    return drawn.split("\n") if drawn else []


def unframed(lines: list[str]) -> tuple[list[str], bool]:
    """Return the rows of a drawing without its frame, and whether there was one (as `SquareBoard.draw`, or bars)."""
    ends = len(lines) > 2 and FRAME.fullmatch(lines[0]) and FRAME.fullmatch(lines[-1])
    rows = lines[1:-1] if ends else lines
    barred = [BARRED.fullmatch(row) for row in rows if row]
    if barred and all(barred):
        return [row and row.rstrip(" ")[1:-1] for row in rows], True
    return rows, bool(ends)
