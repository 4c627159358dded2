"""ARC-AGI tasks in TRM's layout: grids of up to 30×30 colours as 900 tokens, and their augmentations."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from datasets_gen.family import SquareBoard, drawn_lines, unframed
from datasets_gen.layout import DatasetError
from datasets_gen.puzzles import FAMILIES, PUBLISHED

SIDE = 30  # the largest grid's
PAD, EOS, FIRST_COLOUR = 0, 1, 2
DIGITS = " ·0123456789"  # token t is drawn as DIGITS[t]
COLOURS = (
    "#000000", "#1e7fd8", "#e8413a", "#35b34a", "#f6d51f", "#a0a0a0", "#d930b4", "#f0852c", "#8fd3ee", "#7d1a2c",
)  # fmt: skip
SEPARATOR = "|||"  # as in TRM: NAME|||t3|||0918273645; HRM wrote NAME_t3_0918273645
NAMED = re.compile(r"(?P<task>.*?)(\|\|\||_)t(?P<which>[0-7])(\|\|\||_)(?P<colours>\d{10})", re.ASCII | re.DOTALL)
INVERSE = (0, 3, 2, 1, 4, 5, 6, 7)


def tokens_of(grid: np.ndarray, top: int = 0, left: int = 0, side: int = SIDE) -> np.ndarray:
    """Return tokens (S,) of a grid of colours 0..9 with its corner at (top, left); EOS bounds it below and right."""
    rows, columns = grid.shape
    board = np.zeros((side, side), np.uint8)
    board[top : top + rows, left : left + columns] = grid + FIRST_COLOUR
    if top + rows < side:
        board[top + rows, left : left + columns] = EOS
    if left + columns < side:
        board[top : top + rows, left + columns] = EOS
    return board.ravel()


def crop(board: np.ndarray) -> np.ndarray:
    """Return the largest rectangle of colours at the top left corner of a board (rows, columns) of tokens, as colours.

    Among equally large ones, the one with the fewest rows; empty (0, 0) if the corner has no colour. HRM and TRM
    crop a prediction in the same way and ignore its end tokens. (TRM, evaluators/arc.py)
    """
    coloured = (board >= FIRST_COLOUR) & (board < FIRST_COLOUR + 10)
    widths = np.minimum.accumulate(np.cumprod(coloured, axis=1).sum(1))  # columns that the first rows all colour
    areas = widths * np.arange(1, len(board) + 1)
    rows = int(areas.argmax()) + 1 if areas.any() else 0
    return board[:rows, : widths[rows - 1] if rows else 0].astype(np.int64) - FIRST_COLOUR


def board_of(tokens: np.ndarray) -> np.ndarray:
    """Reshape tokens (S,) to the square board (rows, columns)."""
    side = math.isqrt(len(tokens))
    return tokens.reshape(side, side)


def corner_of(tokens: np.ndarray) -> tuple[int, int]:
    """Return the first row and the first column with a colour; (0, 0) on an empty board."""
    coloured = board_of(tokens) >= FIRST_COLOUR
    return int(coloured.any(1).argmax()), int(coloured.any(0).argmax())


def grid_of(tokens: np.ndarray) -> np.ndarray:
    """Return the grid of colours of a question or a label (S,), at any place of the board; 0×0 on an empty board."""
    top, left = corner_of(tokens)
    return crop(board_of(tokens)[top:, left:])


@dataclass(frozen=True)
class Arc(SquareBoard):
    """Tokens: 0 padding, 1 end of the grid, 2..11 the colours; the cells outside of the grid are not scored.

    Published boards have 30×30 cells; smaller boards need fewer tokens for tasks with small grids (ours).
    """

    size: int = SIDE

    name = "arc"
    characters = DIGITS
    glyphs = DIGITS[:FIRST_COLOUR] + " " * len(COLOURS)
    colours: ClassVar[dict[int, str]] = dict(enumerate(COLOURS, FIRST_COLOUR))
    has_rules = False  # only the solution of the task does, see `vote`
    answer_contains_question = False  # the answer is another grid
    outside = PAD
    symmetry = None  # the identifier fixes the augmentation
    rules = "every question and every label is a grid bounded by ends"

    def __post_init__(self) -> None:
        if not 1 <= self.size <= SIDE:
            raise DatasetError(f"ARC boards of {self.size}x{self.size} cells; type 1 to {SIDE}")

    def fault(self, question: np.ndarray, answer: np.ndarray, relations: np.ndarray | None = None) -> str | None:
        """Return the fault of the first board (S,), (S,) without a grid bounded by end tokens, or None."""
        for name, tokens in (("question", question), ("answer", answer)):
            grid = grid_of(tokens)
            if name == "answer" and (tokens == EOS).all():  # not known
                continue
            if grid.size == 0:
                return f"the {name} holds no grid of colours"
            wrong = tokens != tokens_of(grid, *corner_of(tokens), self.size)
            if wrong.any():
                return f"the {name} is not a grid bounded by ends: {tokens[wrong][0]} at {self.place(wrong.argmax())}"
        return None

    def features(self, questions: np.ndarray, answers: np.ndarray) -> dict[str, np.ndarray]:
        """Return the statistics (N,) of the puzzles, by name."""
        return {"cells of the answer": (answers >= FIRST_COLOUR).sum(1)}

    def signatures(self, questions: np.ndarray, answers: np.ndarray, relations: np.ndarray | None = None) -> np.ndarray:
        """Return (N,) uint64, equal for the same pair of grids at any place of the board."""
        moved = [
            [tokens_of(grid_of(tokens), side=self.size) for tokens in pair]
            for pair in zip(questions, answers, strict=True)
        ]
        return super().signatures(np.array(moved).reshape(len(questions), 2 * self.seq_len), answers)

    def parse(self, text: str) -> np.ndarray:
        """Parse tokens (S,) of a whole board in the characters of `draw`, with or without its frame."""
        return super().parse("\n".join(unframed(drawn_lines(text))[0]))


def dihedral(grid: np.ndarray, which: int) -> np.ndarray:
    """Apply one of the eight symmetries of the square; 0-3 turn counterclockwise, 4-7 flip."""
    if which < 4:
        return np.rot90(grid, which)
    return (np.fliplr, np.flipud, np.transpose, lambda turned: np.fliplr(np.rot90(turned)))[which - 4](grid)


@dataclass(frozen=True)
class Augmentation:
    """A symmetry of the square and a permutation of the ten colours that keeps black.

    The identifier of an augmented puzzle names its augmentation, so that predictions can be transformed back.
    """

    which: int = 0
    colours: tuple[int, ...] = tuple(range(10))

    @classmethod
    def draw(cls, rng: np.random.Generator) -> Augmentation:
        """Draw a random augmentation."""
        return cls(int(rng.random() * 8), (0, *(int(colour) + 1 for colour in rng.random(9).argsort())))

    def name(self, task: str) -> str:
        """Return the identifier of the task under this augmentation; the name of the task for the identity."""
        if self == Augmentation():
            return task
        return SEPARATOR.join([task, f"t{self.which}", "".join(map(str, self.colours))])

    @classmethod
    def of(cls, identifier: str) -> tuple[str, Augmentation]:
        """Return the task and the augmentation that an identifier names; without an augmentation, the identity."""
        match = NAMED.fullmatch(identifier)
        if match is None or len(set(match["colours"])) < 10:
            return identifier, cls()
        return match["task"], cls(int(match["which"]), tuple(map(int, match["colours"])))

    def apply(self, grid: np.ndarray) -> np.ndarray:
        """Recolour and move a grid (rows, columns) of colours."""
        return dihedral(np.array(self.colours)[grid], self.which)

    def undo(self, grid: np.ndarray) -> np.ndarray:
        """Invert `apply`."""
        return np.argsort(self.colours)[dihedral(grid, INVERSE[self.which])]


FAMILIES[Arc.name] = Arc
PUBLISHED[Arc().seq_len, Arc().vocab_size] = Arc()
