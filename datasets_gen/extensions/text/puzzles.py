"""Windows of text for causal models: the label of a token is the next token."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from datasets_gen.extensions.text.tokens import END, Tokenizer, tokenizer_of
from datasets_gen.family import Puzzle
from datasets_gen.layout import DatasetError
from datasets_gen.puzzles import FAMILIES

LINE = {"bytes": 64, "words": 12, "bpe": 16}  # tokens on a line of a drawing


@dataclass(frozen=True)
class Text(Puzzle):
    """Windows of `window` tokens. `tokens`: bytes, words or bpe; `vocabulary`: the fitted entries, one a line."""

    window: int
    tokens: str = "bytes"
    vocabulary: str = ""
    causal: bool = True

    name = "text"
    characters = ""  # tokens are not characters
    has_rules = False  # no rule decides which continuation is right
    answer_contains_question = False
    rules = "every label is the token after its cell"

    @property
    def tokenizer(self) -> Tokenizer:
        """Return the tokenizer."""
        return tokenizer_of(self.tokens, self.vocabulary)

    @property
    def end(self) -> int:  # type: ignore[override]
        """Return the token before and after each document."""
        return self.tokenizer.end

    @property
    def vocab_size(self) -> int:
        """Return the size V of the vocabulary, padding included."""
        return self.tokenizer.size

    @property
    def grid_shape(self) -> tuple[int, int]:
        """Return (1, S): a window is one row of cells."""
        return 1, self.window

    def fault(self, question: np.ndarray, answer: np.ndarray, relations: np.ndarray | None = None) -> str | None:
        """Return the fault of a scored label that is not the token after its cell; the last cell is not checked."""
        labels, after = answer[:-1], question[1:]
        wrong = (labels != 0) & (after != 0) & (labels != after)
        return f"the label of cell {int(wrong.argmax())} is not the token after it" if wrong.any() else None

    def bytes_of(self, tokens: np.ndarray) -> int:
        """Return the number of UTF-8 bytes of the text of tokens (n,)."""
        return len(self.written(tokens).encode())

    def written(self, tokens: Iterable[int]) -> str:
        """Return the text of tokens, without padding and ends."""
        return self.tokenizer.decode(map(int, tokens))

    def draw(self, tokens: np.ndarray, question: np.ndarray | None = None, relations: np.ndarray | None = None) -> str:
        """Return the text of tokens (S,) in lines; unprintable characters are escaped, ¶ ends a document."""
        width = LINE[self.tokens]
        lines = []
        for start in range(0, len(tokens), width):
            pieces: list[list[int]] = [[]]
            for token in tokens[start : start + width].tolist():
                pieces += [[]] if token == self.end else []
                pieces[-1] += [] if token == self.end else [token]
            lines.append(END.join(map(self.written, pieces)))
        return "\n".join("".join(c if c.isprintable() else repr(c)[1:-1] for c in line) for line in lines)

    def parse(self, text: str) -> np.ndarray:
        """Return tokens (n,) of the beginning of a document: `end`, then the text; n may be less than the window."""
        tokens = [self.end, *self.tokenizer.encode(text)]
        if len(tokens) > self.window:
            raise DatasetError(f"the text has {len(tokens)} tokens, but the model reads {self.window}; shorten it")
        return np.array(tokens, np.int32)


FAMILIES[Text.name] = Text
