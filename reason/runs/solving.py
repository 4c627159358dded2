"""One typed puzzle, solved by a trained model step by step."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from datasets_gen.layout import DatasetError
from datasets_gen.pictures import character_of
from datasets_gen.puzzles import Puzzle, family_of
from reason.config.schema import Config
from reason.data import draw_symmetries, shape_of_puzzle
from reason.errors import ConfigError
from reason.evaluation.evaluator import PuzzleSeeds
from reason.evaluation.studies.boards import Thought, think
from reason.evaluation.studies.restarts import random_like
from reason.generation.decoding import generate
from reason.models.base import IGNORE, Batch, Reasoner, Shape
from reason.pretrained import card, pretrained_models
from reason.runs.directory import read_record
from reason.runs.evaluation import halting_read
from reason.training.checkpoint import seeded

PAD = 0  # of every family, behind a prompt
TRIES = 8  # at a puzzle whose rules tell whether it is solved
MOST_TRIES = 1000  # they are made together


class Solution(NamedTuple):
    """A puzzle, its question (S,) and the answers after every step."""

    puzzle: Puzzle
    question: np.ndarray
    thought: Thought
    attempt: int = 1  # the try that this is
    tries: int = 1  # how many were made

    @property
    def frames(self) -> np.ndarray:
        """What a drawing shows, (T + 1, S) tokens: the question first."""
        return self.puzzle.frames(self.question, self.thought.answers)

    @property
    def right(self) -> bool | None:
        """Whether the rules hold for the last answer; None: no rule tells."""
        if not self.puzzle.judges:
            return None
        last = self.thought.answers[-1:].astype(self.question.dtype)
        return bool(self.puzzle.solved(self.question[None], last)[0])

    def describe(self) -> dict[str, Any]:
        """What --json prints: the answer, whether the rules hold, what speaks against it, and every step."""
        found = describe(self.puzzle, self.question, self.thought)
        against = doubts(self.puzzle, self.question, self.thought)
        sure = not against if found["rules_hold"] is None else found["rules_hold"]
        return {"sure": sure, "doubts": against, "attempt": self.attempt, "tries": self.tries} | found


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


def solve_text(
    run: Path, model: Reasoner, config: Config, text: str, steps: int | None = None, tries: int = TRIES
) -> Solution:
    """A puzzle as a person types or draws it, `steps` supervision steps from its initial state.

    steps: none for twice the trained ones, and as many times more as a larger board has more rows. tries: where the
    rules do not hold at the last step, so many tries are made, the others under random symmetries of the puzzle, or
    from random states where it has none; the first at which the rules hold is returned, else the first of all.

    Raises:
        ConfigError: it contradicts itself, its size is none that the model reads, or there is no step or try.
        DatasetError: it is malformed.
    """
    if not 1 <= tries <= MOST_TRIES:
        raise ConfigError(f"tries={tries}: a whole number from 1 to {MOST_TRIES} is needed")
    if steps is not None and steps < 1:
        raise ConfigError(f"steps={steps}: at least one is needed")
    puzzle = family_of_run(run).sized(text)
    question = puzzle.parse(text)
    shape, device = shape_of_puzzle(puzzle), next(model.parameters()).device
    if not model.reads(shape):
        raise ConfigError(f"the puzzle has {shape}, the model was built for {model.shape}: {_mend(puzzle)}")
    steps = steps or 2 * config.rollout.trained_steps * _larger(shape, model.shape)
    model.add_shape(shape)
    question = completed(model, puzzle, question, steps, device) if puzzle.causal else question
    tokens = torch.from_numpy(question.astype(np.int64))[None].to(device)
    batch = Batch(tokens, torch.full_like(tokens, IGNORE), torch.zeros(1, dtype=torch.long, device=device))
    halting = halting_read(config)
    with seeded(config.seed, device):  # a random initial state
        first = Solution(puzzle, question, think(model, batch, steps, halting)[0])
    if not first.right and (reason := puzzle.contradiction(question)):  # an answer that holds shows that there is one
        raise ConfigError(f"the puzzle contradicts itself: {reason}")
    if tries == 1 or puzzle.causal or first.right is not False:
        return first
    if puzzle.symmetry is not None:
        tries = puzzle.symmetry.distinct(tries)
    many = Batch(*(tensor.expand(tries - 1, *tensor.shape[1:]) for tensor in batch))
    generator = torch.Generator(device).manual_seed(config.seed)
    streams = PuzzleSeeds(torch.arange(1, tries), config.seed)
    with seeded(config.seed, device):
        if puzzle.symmetry is None:
            others = think(model, many, steps, halting, lambda state: random_like(state, streams.normal))
        else:
            moved = draw_symmetries(tries - 1, puzzle.symmetry, generator, torch.arange(1, tries, device=device))
            others = think(model, many, steps, halting, moved=moved)
    for attempt, thought in enumerate(others, start=2):
        other = Solution(puzzle, question, thought, attempt, attempt)
        if other.right:
            return other
    return first._replace(tries=tries)


def _larger(shape: Shape, trained: Shape) -> int:
    """How many times as many rows, rounded up."""
    return math.ceil(math.sqrt(max(1.0, shape.seq_len / trained.seq_len)))


def _mend(puzzle: Puzzle) -> str:
    fit = next((name for name in pretrained_models() if card(name)["task"] == puzzle.task), None)
    return "type one of its size" if fit is None else f"type one of its size, or reason solve {fit} …"


def completed(model: Reasoner, puzzle: Puzzle, prompt: np.ndarray, steps: int, device: torch.device) -> np.ndarray:
    """A causal prompt (S,), padding behind it, written on to its end: the likeliest token, `steps` loops for each."""
    asked, question = int((prompt != PAD).sum()), prompt.copy()
    tokens = torch.from_numpy(prompt[:asked].astype(np.int64))[None].to(device)
    said = generate(model, tokens, len(prompt) - asked, steps, end=puzzle.end).tokens[0]
    question[asked : asked + len(said)] = said.cpu().numpy()
    return question


def doubts(puzzle: Puzzle, question: np.ndarray, thought: Thought) -> list[str]:
    """What speaks against the last answer, in words, without its rules or its label; empty: the model is sure."""
    frames = puzzle.frames(question, thought.answers)
    found = []
    if changed := int((puzzle.given(question) & (frames[-1] != question)).sum()):
        found.append(f"{_cells(changed)} of the question changed")
    if thought.halting is not None and thought.halting[-1] < 0.5:
        found.append(f"the halting head gives {thought.halting[-1]:.1%} that it is right")
    late = frames[max(1, 3 * (len(frames) - 1) // 4) :]  # the last quarter of the steps
    if restless := int((late[1:] != late[:-1]).any(0).sum()):
        found.append(f"no fixed point: {_cells(restless)} changed in the last quarter of the steps")
    return found


def _cells(count: int) -> str:
    return f"{count} cell{'' if count == 1 else 's'}"


def describe(puzzle: Puzzle, question: np.ndarray, thought: Thought) -> dict[str, Any]:
    """The answer, whether the rules hold, and every step."""
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
