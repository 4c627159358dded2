"""One typed puzzle, solved by a trained model step by step."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from datasets_gen.layout import DatasetError
from datasets_gen.pictures import character_of
from datasets_gen.puzzles import Puzzle, family_of
from reason.data import shape_of_puzzle
from reason.errors import ConfigError
from reason.evaluation.boards import Thought, think
from reason.generation.decoding import generate
from reason.models.base import IGNORE, Batch, Reasoner
from reason.rollout import Halting
from reason.runs.directory import read_record

PAD = 0  # of every family, behind a prompt


class Solution(NamedTuple):
    """A puzzle, its question (S,) and the answers after every step."""

    puzzle: Puzzle
    question: np.ndarray
    thought: Thought

    @property
    def frames(self) -> np.ndarray:
        """What a drawing shows, (T + 1, S) tokens: the question first."""
        return self.puzzle.frames(self.question, self.thought.answers)

    def describe(self) -> dict[str, Any]:
        """`describe` of it."""
        return describe(self.puzzle, self.question, self.thought)


def family_of_run(run: Path) -> Puzzle:
    """The family of the puzzles that a run was trained on.

    Raises:
        ConfigError: none that can be typed.
    """
    record = read_record(run)
    try:
        return family_of(record["task"], record["shape"]["seq_len"], record["shape"]["vocab_size"])
    except (DatasetError, KeyError) as error:
        raise ConfigError(f"{run} was trained on a set of no known family; no puzzle can be typed: {error}") from None


def solve_text(model: Reasoner, family: Puzzle, text: str, steps: int, halting: Halting) -> Solution:
    """A puzzle as a person types or draws it, `steps` supervision steps from its initial state.

    Raises:
        ConfigError: it contradicts itself, or its size is none that the model reads.
        DatasetError: it is malformed.
    """
    puzzle = family.sized(text)
    question = puzzle.parse(text)
    if reason := puzzle.contradiction(question):
        raise ConfigError(f"the puzzle contradicts itself: {reason}")
    shape, device = shape_of_puzzle(puzzle), next(model.parameters()).device
    if not model.reads(shape):
        raise ConfigError(f"the puzzle has {shape}, the model was built for {model.shape}: type one of its size")
    model.add_shape(shape)
    question = completed(model, puzzle, question, steps, device) if puzzle.causal else question
    tokens = torch.from_numpy(question.astype(np.int64))[None].to(device)
    batch = Batch(tokens, torch.full_like(tokens, IGNORE), torch.zeros(1, dtype=torch.long, device=device))
    return Solution(puzzle, question, think(model, batch, steps, halting)[0])


def completed(model: Reasoner, puzzle: Puzzle, prompt: np.ndarray, steps: int, device: torch.device) -> np.ndarray:
    """A causal prompt (S,), padding behind it, written on to its end: the likeliest token, `steps` loops for each."""
    asked, question = int((prompt != PAD).sum()), prompt.copy()
    tokens = torch.from_numpy(prompt[:asked].astype(np.int64))[None].to(device)
    said = generate(model, tokens, len(prompt) - asked, steps, end=puzzle.end).tokens[0]
    question[asked : asked + len(said)] = said.cpu().numpy()
    return question


def describe(puzzle: Puzzle, question: np.ndarray, thought: Thought) -> dict[str, Any]:
    """What --json prints: the answer, whether the rules hold, and every step."""
    frames = puzzle.frames(question, thought.answers)
    answers = thought.answers.astype(question.dtype)
    holds = puzzle.solved(np.tile(question, (len(answers), 1)), answers).tolist() if puzzle.judges else None
    steps = [
        {
            "step": m,
            "answer": _lines(puzzle, frames[m]),
            "changed": np.flatnonzero(frames[m] != frames[m - 1]).tolist(),
            "halting": None if thought.halting is None else thought.halting[m - 1],
            "rules_hold": None if holds is None else holds[m - 1],
        }
        for m in range(1, len(frames))
    ]
    return {
        "task": puzzle.task,
        "question": _lines(puzzle, frames[0]),
        "answer": steps[-1]["answer"],
        "rules_hold": steps[-1]["rules_hold"],
        "mistake": puzzle.mistake(question, answers[-1]) if puzzle.judges else None,
        "first_step_at_which_the_rules_hold": next((row["step"] for row in steps if row["rules_hold"]), None),
        "steps": steps,
    }


def _lines(puzzle: Puzzle, tokens: np.ndarray) -> list[str]:
    text, width = "".join(character_of(puzzle.characters, token) for token in tokens), puzzle.grid_shape[1]
    return [text[i : i + width] for i in range(0, len(text), width)]
