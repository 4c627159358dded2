"""ARC-AGI tasks in TRM's layout: grids of up to 30×30 colours as 900 tokens."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from datasets_gen.layout import DatasetError
from datasets_gen.structure import SquareBoard, Structure

SIDE = 30  # the largest grid's
PAD, EOS, FIRST_COLOUR = 0, 1, 2
DIGITS = " ·0123456789"  # token t is drawn as DIGITS[t]
COLOURS = (
    "#000000", "#1e7fd8", "#e8413a", "#35b34a", "#f6d51f", "#a0a0a0", "#d930b4", "#f0852c", "#8fd3ee", "#7d1a2c",
)  # fmt: skip


def tokens_of(grid: np.ndarray, top: int = 0, left: int = 0, side: int = SIDE) -> np.ndarray:
    """(S,) tokens of a grid of colours 0..9 whose corner lies at (top, left); EOS bounds it below and right."""
    rows, columns = grid.shape
    board = np.zeros((side, side), np.uint8)
    board[top : top + rows, left : left + columns] = grid + FIRST_COLOUR
    if top + rows < side:
        board[top + rows, left : left + columns] = EOS
    if left + columns < side:
        board[top : top + rows, left + columns] = EOS
    return board.ravel()


def crop(board: np.ndarray) -> np.ndarray:
    """The largest rectangle of colours at the top left corner of a board (rows, columns) of tokens, as colours.

    Of several as large the one with the fewest rows; empty (0, 0) where the corner holds no colour. This is how HRM
    and TRM read a prediction, whatever ends it has. (TRM, evaluators/arc.py)
    """
    coloured = (board >= FIRST_COLOUR) & (board < FIRST_COLOUR + 10)
    widths = np.minimum.accumulate(np.cumprod(coloured, axis=1).sum(1))  # columns that the first rows all colour
    areas = widths * np.arange(1, len(board) + 1)
    rows = int(areas.argmax()) + 1 if areas.any() else 0
    return board[:rows, : widths[rows - 1] if rows else 0].astype(np.int64) - FIRST_COLOUR


def board_of(tokens: np.ndarray) -> np.ndarray:
    """(S,) tokens -> (rows, columns)."""
    side = math.isqrt(len(tokens))
    return tokens.reshape(side, side)


def corner_of(tokens: np.ndarray) -> tuple[int, int]:
    """The first row and the first column that hold a colour; (0, 0) where none does."""
    coloured = board_of(tokens) >= FIRST_COLOUR
    return int(coloured.any(1).argmax()), int(coloured.any(0).argmax())


def grid_of(tokens: np.ndarray) -> np.ndarray:
    """The grid of colours of a question or a label (S,), wherever on the board it lies; (0, 0) where there is none."""
    top, left = corner_of(tokens)
    return crop(board_of(tokens)[top:, left:])


@dataclass(frozen=True)
class Arc(SquareBoard):
    """Tokens: 0 padding, 1 end of the grid, 2..11 the colours; unscored are the cells outside of the grid.

    Published boards have 30×30 cells; smaller ones hold tasks of small grids in fewer tokens (ours).

    Raises:
        DatasetError: a board that no grid has.
    """

    size: int = SIDE

    vocab_size = 12
    box_shape = None
    characters = DIGITS
    glyphs = DIGITS[:FIRST_COLOUR] + " " * len(COLOURS)
    fills: ClassVar[dict[int, str]] = dict(enumerate(COLOURS, FIRST_COLOUR))
    judges = False
    causal, end = False, None
    symmetry = None  # the identifier fixes the augmentation
    rating_name = "none"
    rules = "every question and every label is a grid bounded by ends"

    def __post_init__(self) -> None:
        if not 1 <= self.size <= SIDE:
            raise DatasetError(f"ARC boards of {self.size}x{self.size} cells; give 1 to {SIDE}")

    @property
    def task(self) -> dict[str, Any]:
        """What dataset.json keeps."""
        return {"name": "arc", "size": self.size}

    @property
    def structure(self) -> Structure:
        """The grid; the identifier fixes the colours too, so none is interchangeable."""
        return Structure(grid=self.grid_shape, outside=PAD)

    @property
    def vote(self) -> Callable[..., dict[str, Any]]:
        """Augmentations undone, pass@1 and pass@2 as TRM computes them."""
        from datasets_gen.arc.vote import vote  # which reads boards

        return vote

    def fault(self, question: np.ndarray, answer: np.ndarray) -> str | None:
        """The first of the two boards (S,), (S,) that is no grid bounded by ends."""
        for name, tokens in (("question", question), ("answer", answer)):
            grid = grid_of(tokens)
            if grid.size == 0:
                return f"the {name} holds no grid of colours"
            wrong = tokens != tokens_of(grid, *corner_of(tokens), self.size)
            if wrong.any():
                cell = int(wrong.argmax())
                return (
                    f"the {name} is no {grid.shape[0]}x{grid.shape[1]} grid bounded by ends: token "
                    f"{tokens[cell]} at row {cell // self.size + 1}, column {cell % self.size + 1}"
                )
        return None

    def valid(self, questions: np.ndarray, answers: np.ndarray) -> np.ndarray:
        """(N,) bool: where `fault` is None."""
        return np.array([self.fault(q, a) is None for q, a in zip(questions, answers, strict=True)], bool)

    def solved(self, questions: np.ndarray, answers: np.ndarray) -> np.ndarray:
        """No rule tells a right answer: only the task's own solution does.

        Raises:
            DatasetError: always.
        """
        raise DatasetError("an ARC answer cannot be judged without its solution; see datasets_gen.arc.vote")

    def mistake(self, question: np.ndarray, answer: np.ndarray) -> str | None:
        """As `solved`.

        Raises:
            DatasetError: always.
        """
        self.solved(question[None], answer[None])
        return None

    def contradiction(self, question: np.ndarray) -> str | None:
        """None: every grid may be asked about."""
        return None

    def given(self, question: np.ndarray) -> np.ndarray:
        """(S,) bool: none, question and answer are two grids."""
        return np.zeros(question.shape, bool)

    def frames(self, question: np.ndarray, answers: np.ndarray) -> np.ndarray:
        """Whole boards."""
        return np.concatenate([question[None], answers.astype(question.dtype)])

    def rating_bins(self, ratings: np.ndarray) -> None:
        """There are no ratings."""

    def features(self, questions: np.ndarray, answers: np.ndarray) -> dict[str, np.ndarray]:
        """Statistics (N,) by name."""
        return {"cells of the answer": (answers >= FIRST_COLOUR).sum(1)}

    def ratings(self, questions: np.ndarray, answers: np.ndarray) -> np.ndarray | None:
        """None: nothing rates a task."""
        return None

    def signatures(self, questions: np.ndarray, answers: np.ndarray) -> np.ndarray:
        """(N,) uint64, equal for the same pair of grids, wherever on the board they lie."""
        found = [hash_of(grid_of(q), grid_of(a)) for q, a in zip(questions, answers, strict=True)]
        return np.array(found, np.uint64)

    def draw(self, tokens: np.ndarray, question: np.ndarray | None = None) -> str:
        """The board (S,) as digits, a frame around it."""
        rows = np.array(list(DIGITS))[board_of(tokens)]
        frame = "+" + "-" * self.size + "+"
        return "\n".join([frame, *("|" + "".join(row) + "|" for row in rows), frame])

    def sized(self, text: str) -> Arc:
        """Itself: there is one size of board."""
        return self

    def parse(self, text: str) -> np.ndarray:
        """Tokens (S,) of a grid typed as lines of digits.

        Raises:
            DatasetError: lines of different lengths, other characters, or more of them than the board has.
        """
        lines = [line.replace(" ", "") for line in text.strip().split("\n")]
        if not all(line.isdecimal() for line in lines) or len({len(line) for line in lines}) != 1:
            raise DatasetError("type a grid as lines of digits 0-9, all of the same length")
        grid = np.array([[int(character) for character in line] for line in lines])
        if max(grid.shape) > self.size:
            raise DatasetError(f"a grid of {grid.shape[0]}x{grid.shape[1]}; at most {self.size}x{self.size}")
        return tokens_of(grid, side=self.size)


def hash_of(*grids: np.ndarray) -> int:
    """A 64-bit hash of grids and their shapes."""
    digest = hashlib.blake2b(digest_size=8)
    for grid in grids:
        digest.update(bytes(grid.shape) + grid.astype(np.uint8).tobytes())
    return int.from_bytes(digest.digest(), "little")
