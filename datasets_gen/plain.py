"""A puzzle family of one's own: what `Puzzle` asks for, with answers that fit most puzzles."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np

from datasets_gen.layout import DatasetError
from datasets_gen.structure import Structure
from datasets_gen.symmetry import GridSymmetry


class PlainPuzzle(ABC):
    """A board of cells with one character each, whose rules tell whether an answer is right.

    A family is a frozen dataclass that derives from it, states `name`, `characters`, `grid_shape` and `solved`, and is
    entered as `datasets_gen.puzzles.FAMILIES[name]`; its fields are the other entries of dataset.json's `task`. What
    else a family may have is in `datasets_gen.puzzles.Puzzle`.
    """

    name: ClassVar[str]
    characters: str  # of token 0, 1, 2, …; the first one pads

    rating_name = "none"
    rules = "every answer is right"
    judges = True
    box_shape: tuple[int, int] | None = None
    fills: Mapping[int, str] = {}
    causal, end = False, None
    symmetry: GridSymmetry | None = None
    vote: Callable[..., dict[str, Any]] | None = None

    @property
    @abstractmethod
    def grid_shape(self) -> tuple[int, int]:
        """(rows, columns) of the board."""

    @abstractmethod
    def solved(self, questions: np.ndarray, answers: np.ndarray) -> np.ndarray:
        """(N, S), (N, S) -> (N,) bool: where the answer keeps what the question fixes and obeys every rule."""

    @property
    def vocab_size(self) -> int:
        """A token for each character."""
        return len(self.characters)

    @property
    def seq_len(self) -> int:
        """Cells of the board."""
        return self.grid_shape[0] * self.grid_shape[1]

    @property
    def glyphs(self) -> str:
        """As text shows it."""
        return self.characters

    @property
    def structure(self) -> Structure:
        """The grid alone."""
        return Structure(grid=self.grid_shape)

    @property
    def task(self) -> dict[str, Any]:
        """The name and the fields."""
        return {"name": self.name, **vars(self)}

    def fault(self, question: np.ndarray, answer: np.ndarray) -> str | None:
        """As `mistake`."""
        return self.mistake(question, answer)

    def mistake(self, question: np.ndarray, answer: np.ndarray) -> str | None:
        """That a rule is broken, with no word about which."""
        return None if self.solved(question[None], answer[None])[0] else "the answer breaks a rule"

    def contradiction(self, question: np.ndarray) -> str | None:
        """None: every question may be asked."""
        return None

    def valid(self, questions: np.ndarray, answers: np.ndarray) -> np.ndarray:
        """(N,) bool: solved."""
        return self.solved(questions, answers)

    def given(self, question: np.ndarray) -> np.ndarray:
        """(S,) bool: no cell is set apart."""
        return np.zeros(question.shape, bool)

    def frames(self, question: np.ndarray, answers: np.ndarray) -> np.ndarray:
        """Whole boards."""
        return np.concatenate([question[None], answers.astype(question.dtype)])

    def rating_bins(self, ratings: np.ndarray) -> tuple[list[str], np.ndarray] | None:
        """None."""
        return None

    def features(self, questions: np.ndarray, answers: np.ndarray) -> dict[str, np.ndarray]:
        """None."""
        return {}

    def ratings(self, questions: np.ndarray, answers: np.ndarray) -> np.ndarray | None:
        """None follow from the puzzle."""
        return None

    def signatures(self, questions: np.ndarray, answers: np.ndarray) -> np.ndarray:
        """(N,) uint64, equal where the question is."""
        rows = np.ascontiguousarray(questions, dtype=np.int32)
        digests = [hashlib.blake2b(row.tobytes(), digest_size=8).digest() for row in rows]
        return np.array([int.from_bytes(digest, "little") for digest in digests], np.uint64)

    def draw(self, tokens: np.ndarray, question: np.ndarray | None = None) -> str:
        """The board (S,) as lines of characters."""
        return "\n".join("".join(self.characters[t] for t in row) for row in tokens.reshape(self.grid_shape))

    def sized(self, text: str) -> PlainPuzzle:
        """Itself."""
        return self

    def parse(self, text: str) -> np.ndarray:
        """Tokens (S,) of a typed board; line ends are passed over.

        Raises:
            DatasetError: a foreign character or a wrong number of cells.
        """
        cells = [character for character in text if character not in "\r\n"]
        foreign = next((character for character in cells if character not in self.characters), None)
        if foreign is not None:
            raise DatasetError(f"{foreign!r} is no cell of {self.name}; those are {self.characters!r}")
        if len(cells) != self.seq_len:
            raise DatasetError(f"{len(cells)} cells; a board of {self.name} has {self.seq_len}")
        tokens = [self.characters.index(character) for character in cells]
        return np.array(tokens, np.uint8 if self.vocab_size <= 256 else np.int32)
