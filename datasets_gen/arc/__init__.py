"""ARC-AGI tasks in TRM's layout: grids of up to 30×30 colours as 900 tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from datasets_gen.layout import DatasetError

SIDE = 30
PAD, EOS, FIRST_COLOUR = 0, 1, 2
DIGITS = " ·0123456789"  # token t is drawn as DIGITS[t]
COLOURS = (
    "#000000", "#1e7fd8", "#e8413a", "#35b34a", "#f6d51f", "#a0a0a0", "#d930b4", "#f0852c", "#8fd3ee", "#7d1a2c",
)  # fmt: skip


def tokens_of(grid: np.ndarray, top: int = 0, left: int = 0) -> np.ndarray:
    """(S,) tokens of a grid of colours 0..9 whose corner lies at (top, left); EOS bounds it below and right."""
    rows, columns = grid.shape
    board = np.zeros((SIDE, SIDE), np.uint8)
    board[top : top + rows, left : left + columns] = grid + FIRST_COLOUR
    if top + rows < SIDE:
        board[top + rows, left : left + columns] = EOS
    if left + columns < SIDE:
        board[top : top + rows, left + columns] = EOS
    return board.ravel()


def grid_of(tokens: np.ndarray) -> np.ndarray:
    """The grid of colours at the corner where colours begin; of a prediction, the rectangle that they fill.

    An empty grid (0, 0) where there is no colour.
    """
    board = tokens.reshape(SIDE, SIDE).astype(np.int64)
    coloured = (board >= FIRST_COLOUR) & (board < FIRST_COLOUR + 10)
    if not coloured.any():
        return np.zeros((0, 0), np.int64)
    top, left = (int(coloured.any(axis).argmax()) for axis in (1, 0))
    rows = int(np.append(coloured[top:, left], False).argmin())
    columns = int(np.append(coloured[top, left:], False).argmin())
    inside = coloured[top : top + rows, left : left + columns].all(1)
    rows = int(np.append(inside, False).argmin())
    return board[top : top + rows, left : left + columns] - FIRST_COLOUR


@dataclass(frozen=True)
class Arc:
    """Tokens: 0 padding, 1 end of the grid, 2..11 the colours; unscored are the cells outside of the grid."""

    vocab_size = 12
    seq_len = SIDE * SIDE
    grid_shape = (SIDE, SIDE)
    box_shape = None
    characters = DIGITS
    glyphs = DIGITS[:FIRST_COLOUR] + " " * len(COLOURS)
    fills: ClassVar[dict[int, str]] = dict(enumerate(COLOURS, FIRST_COLOUR))
    judges = False
    causal, end = False, None
    symmetry = None  # the identifier fixes the augmentation
    rating_name = "none"
    rules = "every question and every label is a grid bounded by ends"
    task = {"name": "arc"}  # noqa: RUF012

    def fault(self, question: np.ndarray, answer: np.ndarray) -> str | None:
        """The first of the two boards (S,), (S,) that is no grid bounded by ends."""
        for name, tokens in (("question", question), ("answer", answer)):
            grid = grid_of(tokens)
            if grid.size == 0:
                return f"the {name} holds no colour"
            coloured = (tokens >= FIRST_COLOUR).reshape(SIDE, SIDE)
            top, left = (int(coloured.any(axis).argmax()) for axis in (1, 0))
            wrong = tokens != tokens_of(grid, top, left)
            if wrong.any():
                cell = int(wrong.argmax())
                return (
                    f"the {name} is no {grid.shape[0]}x{grid.shape[1]} grid bounded by ends: token "
                    f"{tokens[cell]} at row {cell // SIDE + 1}, column {cell % SIDE + 1}"
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
        rows = np.array(list(DIGITS))[tokens].reshape(SIDE, SIDE)
        frame = "+" + "-" * SIDE + "+"
        return "\n".join([frame, *("|" + "".join(row) + "|" for row in rows), frame])

    def parse(self, text: str) -> np.ndarray:
        """Tokens (S,) of a grid typed as lines of digits.

        Raises:
            DatasetError: lines of different lengths, other characters, or more than 30 of them.
        """
        lines = [line.replace(" ", "") for line in text.strip().split("\n")]
        if not all(line.isdecimal() for line in lines) or len({len(line) for line in lines}) != 1:
            raise DatasetError("type a grid as lines of digits 0-9, all of the same length")
        grid = np.array([[int(character) for character in line] for line in lines])
        if max(grid.shape) > SIDE:
            raise DatasetError(f"a grid of {grid.shape[0]}x{grid.shape[1]}; at most {SIDE}x{SIDE}")
        return tokens_of(grid)


def hash_of(*grids: np.ndarray) -> int:
    """A 64-bit hash of grids and their shapes."""
    import hashlib

    digest = hashlib.blake2b(digest_size=8)
    for grid in grids:
        digest.update(bytes(grid.shape) + grid.astype(np.uint8).tobytes())
    return int.from_bytes(digest.digest(), "little")
