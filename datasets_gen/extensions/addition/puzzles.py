"""Addition as text, `1750+4733= 3846§`: the causal layout of STARS, and a form with blank cells for the answer."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from datasets_gen.family import Puzzle
from datasets_gen.layout import DatasetError
from datasets_gen.puzzles import FAMILIES

PAD, EOS, BLANK = 0, 14, 15
MOST_DIGITS = 1000  # of an operand, and operands of a sum
CHARACTERS = "·0123456789+= §_"  # token t is drawn as CHARACTERS[t]
TOKENS = {character: token for token, character in enumerate(CHARACTERS)}
SPACE = "[ \t\r\n]*"
NUMBER = f"{SPACE}[0-9]+{SPACE}"
SUM = re.compile(rf"({NUMBER}(?:\+{NUMBER})*)(?:={SPACE}[0-9]*§?_*{SPACE})?")  # with an answer as `draw` writes it


@dataclass(frozen=True)
class Addition(Puzzle):
    """Tokens: 0 padding, 1-10 digits, 11 plus, 12 equals, 13 space, 14 end; 15 blank, if not causal.

    digits: maximum of an operand. reverse: the sum's lowest digit comes first. zero_pad: operands and sums have a fixed
    width. The digits of the sum and the end are scored; the other labels are 0.
    causal: an example is the text without its last token, and a cell's label is the next token ("shifted"); the space
    after `=` is scored too, as in the code of STARS. Otherwise the answer has blank cells, as many as the longest sum
    needs, and a cell's label is its digit.
    noise: with this probability P a digit of the sum is replaced by one of the other nine, uniformly. The expected
    cross-entropy of a prediction is then at least −(1 − P)ln(1 − P) − P ln(P/9) nats per digit.
    """

    digits: int = 4
    operands: int = 2
    reverse: bool = True
    zero_pad: bool = False
    causal: bool = True
    noise: float = 0.0

    name = "addition"
    characters = CHARACTERS
    end = EOS
    answer_contains_question = False
    rating_name = "digits of the longest operand"

    def __post_init__(self) -> None:
        several = 2 <= self.operands <= MOST_DIGITS
        if not (several and 1 <= self.digits <= MOST_DIGITS and 0 <= self.noise <= 0.9):
            raise DatasetError(
                f"{self.operands} operands, {self.digits} digits, noise {self.noise}: give at least 2 operands and 1 "
                f"digit, at most {MOST_DIGITS} of each, and as noise a share from 0 to 0.9"
            )

    @property
    def rules(self) -> str:
        """Return the sentence that `verify` prints if the rules hold."""
        rule = "every sum is right, and every digit of it in its cell"
        return f"{rule}, but for wrong digits ({self.noise:g} expected)" if self.noise else rule

    @property
    def vocab_size(self) -> int:
        """Return the number of tokens, padding included."""
        return 15 if self.causal else 16

    @property
    def width(self) -> int:
        """Return the number of digits of the largest sum."""
        return len(str(self.operands * (10**self.digits - 1)))

    @property
    def seq_len(self) -> int:
        """Return the number S of cells: the longest `a+b= `, its sum and, unless causal, the end token."""
        return self.operands * (self.digits + 1) + 1 + self.width + (not self.causal)

    @property
    def grid_shape(self) -> tuple[int, int]:
        """Return (1, S): a sum is one row of cells."""
        return 1, self.seq_len

    @property
    def task(self) -> dict[str, Any]:
        """Return the `task` of dataset.json: the fields, and the position of the labels."""
        fields = {key: value for key, value in super().task.items() if key != "noise" or value}
        labels = "shifted: a cell's label is the token after it" if self.causal else "in place"
        return {**fields, "labels": labels}

    def example(self, operands: list[int]) -> tuple[np.ndarray, np.ndarray]:
        """Return tokens and labels (S,), (S,) of a sum."""
        prompt = self._prompt(operands)
        total = str(sum(operands))
        total = total.zfill(self.width) if self.zero_pad else total
        answer = (total[::-1] if self.reverse else total) + "§"
        question, label = np.zeros((2, self.seq_len + 1), np.uint8)
        question[: len(prompt)] = [TOKENS[character] for character in prompt]
        label[len(prompt) : len(prompt) + len(answer)] = [TOKENS[character] for character in answer]
        if self.causal:
            label[len(prompt) - 1] = TOKENS[" "]
            return (question | label)[:-1], label[1:]
        question[len(prompt) : len(prompt) + self.width + 1] = BLANK
        return question[:-1], label[:-1]

    def misprinted(self, questions: np.ndarray, labels: np.ndarray, draws: np.ndarray) -> None:
        """Put wrong digits into examples (N, S), (N, S) in place, at uniform draws (N, S) below the noise."""
        wrong = is_digit(labels) & (draws < self.noise)
        others = 1 + (9 * draws / max(self.noise, 1e-9)).astype(int)  # 1 to 9 with equal probability, if wrong
        labels[wrong] = (labels[wrong] - 1 + others[wrong]) % 10 + 1
        if self.causal:
            shown = questions[:, 1:]
            shown[wrong[:, :-1]] = labels[:, :-1][wrong[:, :-1]]

    def _prompt(self, operands: list[int]) -> str:
        width = self.digits if self.zero_pad else 0
        return "+".join(str(operand).zfill(width) for operand in operands) + "= "

    def read(self, question: Iterable[int]) -> list[int]:
        """Return the operands of a question (S,)."""
        text = "".join(CHARACTERS[token] if token < len(CHARACTERS) else "?" for token in question)
        terms = text.partition("=")[0].split("+")
        if not all(term.isdecimal() and len(term) <= self.digits for term in terms):
            raise DatasetError(f"{text!r} does not begin with whole numbers of up to {self.digits} digits, '+' and '='")
        if len(terms) != self.operands:
            raise DatasetError(f"{text!r} adds {len(terms)} numbers, {self.operands} expected")
        return [int(term) for term in terms]

    def fault(self, question: np.ndarray, answer: np.ndarray, relations: np.ndarray | None = None) -> str | None:
        """Return the first broken rule of one example (S,), (S,), with cells counted from 0."""
        try:
            expected = self.example(self.read(question))
        except DatasetError as error:
            return str(error)
        for name, tokens, right in (("question", question, expected[0]), ("answer", answer, expected[1])):
            wrong = tokens != right
            if self.noise:
                digits = is_digit(expected[1])
                if name == "question":  # causal: it holds the answer a cell later
                    digits = np.append(False, digits[:-1]) & self.causal
                wrong &= ~digits | ~is_digit(tokens)
            if wrong.any():
                cell = int(wrong.argmax())
                return f"the {name} holds token {tokens[cell]} in cell {cell}, where {right[cell]} is right"
        return None

    def _labels(self, questions: np.ndarray) -> np.ndarray:
        """Return the labels (N, S) of every question."""
        rows = [self.example(self.read(question))[1] for question in questions.tolist()]
        return np.array(rows, np.uint8).reshape(questions.shape)

    def solved(self, questions: np.ndarray, answers: np.ndarray, relations: np.ndarray | None = None) -> np.ndarray:
        """Return (N,) bool: all scored cells of an answer (N, S) are right: digits, end and, if causal, the space."""
        labels = self._labels(questions)
        return ((labels == 0) | (labels == answers)).all(1)

    def mistake(self, question: np.ndarray, answer: np.ndarray, relations: np.ndarray | None = None) -> str | None:
        """Return a sentence with the answered sum and the right one; None if they are equal."""
        right = self._labels(question[None])[0]
        wrong = (right != PAD) & (right != answer)
        if not wrong.any():
            return None
        given, expected = ("".join(CHARACTERS[token] for token in tokens[right != PAD]) for tokens in (answer, right))
        order = ", lowest digit first" if self.reverse else ""
        return f"the answer is {given!r}, the sum is {expected!r}{order} (§ ends it)"

    def reply(self, question: np.ndarray, answer: np.ndarray) -> str | None:
        """Return the sum, its highest digit first."""
        drawn = self.draw(self.frames(question, answer[None])[1]).partition("=")[2]
        digits = drawn.strip().partition(CHARACTERS[EOS])[0]
        total = digits[::-1] if self.reverse else digits
        return " + ".join(map(str, self.read(question))) + f" = {total.lstrip('0') or total[-1:] or '?'}"

    def frames(self, question: np.ndarray, answers: np.ndarray) -> np.ndarray:
        """Return the prompt, followed by the answer; in the causal layout, a cell's answer is the token after it."""
        frames = np.concatenate([question[None], answers.astype(question.dtype)])
        if not self.causal:
            return np.where((question == BLANK) | (np.arange(len(frames)) == 0)[:, None], frames, question)
        prompt = int((question == TOKENS[" "]).argmax()) + 1
        moved = np.tile(question, (len(frames), 1))
        moved[0, prompt:] = PAD
        moved[1:, prompt:] = frames[1:, prompt - 1 : -1]
        ended = np.cumsum(moved[:, prompt:] == EOS, axis=1) - (moved[:, prompt:] == EOS) > 0
        moved[:, prompt:][ended] = PAD
        return moved

    def signatures(self, questions: np.ndarray, answers: np.ndarray, relations: np.ndarray | None = None) -> np.ndarray:
        """Return (N,) uint64, equal for the same numbers in any order."""
        operands = [tuple(sorted(self.read(question))) for question in questions]
        return np.array([hash(each) % 2**64 for each in operands], np.uint64)

    def draw(self, tokens: np.ndarray, question: np.ndarray | None = None, relations: np.ndarray | None = None) -> str:
        """Return the text of a question, or of a question's sum with this answer."""
        if question is None:
            return "".join(CHARACTERS[token] for token in tokens if token != PAD)
        return self._prompt(self.read(question)) + self.draw(tokens).lstrip()

    def parse(self, text: str) -> np.ndarray:
        """Parse tokens (S,) of a typed sum such as `12+34=`; an answer after '=' is ignored."""
        typed = SUM.fullmatch(text)
        if typed is None:
            raise DatasetError(f"{text.strip()!r:.60} is not a sum; type whole numbers with + between them, as 12+34=")
        operands = self.read(TOKENS[character] for character in re.sub(r"\s", "", typed[1]) + "=")
        question = self.example(operands)[0]
        if self.causal:  # leave out the answer that a training example shows
            question[len(self._prompt(operands)) :] = PAD
        return question


def is_digit(tokens: np.ndarray) -> np.ndarray:
    """Return a mask of the tokens that are digits, 0 to 9."""
    return (tokens >= 1) & (tokens <= 10)


FAMILIES[Addition.name] = Addition
