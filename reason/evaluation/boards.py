"""The answer to single puzzles after every supervision step, for drawings."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from datasets_gen.addition import BLANK, EOS, PAD, TOKENS
from datasets_gen.puzzles import Puzzle
from reason.evaluation.signals import halt_signal
from reason.models.base import IGNORE, Batch, Reasoner
from reason.rollout import Halting, unroll_states

SPACE = TOKENS[" "]  # ends a sum's prompt


@dataclass(frozen=True)
class Thought:
    """One puzzle's answers: row m − 1 is supervision step m."""

    answers: np.ndarray  # (T, S) tokens
    halting: list[float] | None  # T probabilities that the halting head gives "exact"; None: no head


@torch.inference_mode()
def think(model: Reasoner, batch: Batch, steps: int, halting: Halting = "bce") -> list[Thought]:
    """Every row of a batch through `steps` supervision steps."""
    model.eval()
    answers, heads = [], []
    for _, _, readout in unroll_states(model, batch, steps):
        answers.append(readout.logits.argmax(-1))
        q = halt_signal(readout, halting)
        if q is not None:
            heads.append(q.sigmoid())
    tokens = torch.stack(answers, dim=1).cpu().numpy()
    said = torch.stack(heads, dim=1).tolist() if heads else [None] * len(tokens)
    return [Thought(row, head) for row, head in zip(tokens, said, strict=True)]


def examples_of(exact: np.ndarray, count: int) -> tuple[list[int], list[int]]:
    """Up to `count` solved and failed puzzles each, (T, N) exact -> their numbers; evenly spread over the split.

    Solved ones are ranked by the step at which they came out right, latest first, half of the choice: they show more.
    """
    last = exact[-1]
    solved, failed = np.flatnonzero(last), np.flatnonzero(~last)
    wrong_steps = (~exact[:, solved]).sum(0)
    late = solved[np.argsort(-wrong_steps, kind="stable")][: (count + 1) // 2]
    rest = np.setdiff1d(solved, late)
    some = [int(i) for i in (*late, *_spread(rest, count - len(late)))]
    return some, [int(i) for i in _spread(failed, count)]


def _spread(numbers: np.ndarray, count: int) -> np.ndarray:
    if len(numbers) <= count:
        return numbers
    return numbers[np.linspace(0, len(numbers) - 1, count).round().astype(int)] if count > 0 else numbers[:0]


def shown(puzzle: Puzzle, question: np.ndarray, answers: np.ndarray) -> np.ndarray:
    """What a drawing shows of a question (S,) and answers (T, S): (T + 1, S) tokens, the question first.

    Of a sum the prompt as asked and the answer in its place: a causal cell says the token after it.
    """
    frames = np.concatenate([question[None], answers.astype(question.dtype)])
    if puzzle.task["name"] != "addition":
        return frames
    if not puzzle.task["causal"]:
        return np.where((question == BLANK) | (np.arange(len(frames)) == 0)[:, None], frames, question)
    prompt = int((question == SPACE).argmax()) + 1
    moved = np.tile(question, (len(frames), 1))
    moved[0, prompt:] = PAD
    moved[1:, prompt:] = frames[1:, prompt - 1 : -1]
    ended = np.cumsum(moved[:, prompt:] == EOS, axis=1) - (moved[:, prompt:] == EOS) > 0
    moved[:, prompt:][ended] = PAD
    return moved


@torch.inference_mode()
def complete(model: Reasoner, prompt: Tensor, steps: int) -> Tensor:
    """A causal prompt (1, S), padding behind it, written on to its end: the likeliest token, `steps` loops for each."""
    tokens = prompt.clone()
    first = int((prompt[0] != PAD).sum())
    for place in range(first, tokens.shape[1]):
        batch = Batch(tokens, torch.full_like(tokens, IGNORE), torch.zeros_like(tokens[:, 0]))
        *_, (_, _, readout) = unroll_states(model, batch, steps)
        tokens[0, place] = readout.logits[0, place - 1].argmax()
        if tokens[0, place] == EOS:
            break
    return tokens
