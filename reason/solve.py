"""Solves a typed puzzle with a trained model; if the answer breaks a rule, restarts under symmetries of the puzzle."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from datasets_gen.family import character_of
from datasets_gen.layout import DatasetError, read_metadata, splits_of
from datasets_gen.puzzles import Puzzle, family_of, puzzle_named, puzzle_of
from reason.config.describe import halting_read
from reason.config.overrides import read_config
from reason.config.schema import Config
from reason.data.augmentation import draw_symmetries
from reason.data.puzzles import by_relation, shape_of_puzzle
from reason.errors import ConfigError
from reason.evaluation.config import search_of
from reason.evaluation.evaluator import PuzzleSeeds, default_steps
from reason.evaluation.studies.boards import StepAnswers, answers_by_step
from reason.models.base import IGNORE, Batch, Reasoner
from reason.models.layout import accepted, unreadable
from reason.models.mixing import fits_any_set
from reason.models.states import random_like
from reason.plugins import load_parts
from reason.pretrained import card, pretrained_models
from reason.rollout import Unroller, unroll
from reason.runs.directory import read_record, read_shape
from reason.training.generators import seeded

SECONDS = 60.0  # limit of the restarts, for puzzles with rules
MANY = 10**9  # restarts, if only `seconds` ends them
BATCH_SIZES = (7, 8, 16, 32, 64)  # restarts in the first batch, the second, …; the last size repeats


class Writer(NamedTuple):
    """The functions of `reason solve` for a family whose puzzles are texts."""

    add_options: Callable[[argparse.ArgumentParser], None]
    write: Callable[..., dict[str, Any]]  # (run, model, config, puzzle, text, options) -> the content of --json
    shown: Callable[[dict[str, Any], bool], str]  # (that content, whether as JSON) -> text


WRITERS: dict[str, Writer] = {}  # by the name of the family; extensions add theirs in a file solve.py
# By kind of model: fill the padding of a prompt (S,) up to the token `end` with the likeliest tokens after some steps.
COMPLETIONS: dict[str, Callable[[Any, torch.Tensor, int, int | None], torch.Tensor]] = {}
load_parts("solve")


class Solution(NamedTuple):
    """A puzzle, its question (S,) and the answers after every step."""

    puzzle: Puzzle
    question: np.ndarray
    by_step: StepAnswers
    relations: np.ndarray | None = None  # (M, 1 + C + n_cells) its instances
    restart: int = 1  # number of the restart with these answers
    restarts: int = 1  # restarts made, the first attempt included

    @property
    def frames(self) -> np.ndarray:
        """Return the tokens (T + 1, S) of a drawing: the question, then the answers."""
        return self.puzzle.frames(self.question, self.by_step.answers)

    @property
    def right(self) -> bool | None:
        """Return whether the rules hold for the last answer, or None if the family has no rules."""
        return bool(self.rules_hold(self.by_step.answers[-1:])[0]) if self.puzzle.has_rules else None

    def rules_hold(self, answers: np.ndarray) -> np.ndarray:
        """Return (T,) bool: which answers (T, S) to the question obey the rules."""
        return _obeys(answers, self.puzzle, self.question, self.relations)

    def warnings(self) -> list[str]:
        """Return warnings about the last answer, without use of rules or label."""
        frames, halting, warnings = self.frames, self.by_step.halting, []
        if unread := self.puzzle.structure.unread:
            warnings.append(f"networks do not read {', '.join(unread)}")
        if changed := int((self.puzzle.given(self.question) & (frames[-1] != self.question)).sum()):
            warnings.append(f"{counted(changed, 'cell')} of the question changed")
        if halting is not None and halting[-1] < 0.5:
            warnings.append(f"the halting head gives {halting[-1]:.1%} that it is right")
        late = frames[max(1, 3 * (len(frames) - 1) // 4) :]  # the last quarter of the steps
        if restless := int((late[1:] != late[:-1]).any(0).sum()):
            warnings.append(
                f"the answer does not settle: {counted(restless, 'cell')} changed in the last quarter of the steps"
            )
        return warnings

    def describe(self) -> dict[str, Any]:
        """Return the content of --json: the answer, whether the rules hold, the warnings, and every step."""
        puzzle, frames, answers, warnings = self.puzzle, self.frames, self.by_step.answers, self.warnings()
        holds = self.rules_hold(answers).tolist() if puzzle.has_rules else [None] * len(answers)
        steps = [
            {
                "step": m,
                "answer": _lines(puzzle, frames[m]),
                "changed": np.flatnonzero(frames[m] != frames[m - 1]).tolist(),
                "halting": None if self.by_step.halting is None else self.by_step.halting[m - 1],
                "rules_hold": holds[m - 1],
            }
            for m in range(1, len(frames))
        ]
        last = answers[-1].astype(self.question.dtype)
        return {
            "sure": not warnings if holds[-1] is None else holds[-1],
            "doubts": warnings,
            "restart": self.restart,
            "restarts": self.restarts,
            "task": puzzle.task,
            "question": _lines(puzzle, frames[0]),
            "answer": steps[-1]["answer"],
            "rules_hold": holds[-1],
            "mistake": puzzle.mistake(self.question, last, self.relations) if puzzle.has_rules else None,
            "steps": steps,
        }

    def exact(self) -> tuple[int, np.ndarray] | None:
        """Return an exact solver's count (2: several) and answer (S,); None: no solver, or a right one of several."""
        unclear = self.right is False or (self.right and not self.puzzle.multiple_solutions)
        return self.puzzle.exact(self.question, self.relations) if unclear else None

    def exact_entry(self) -> dict[str, Any]:
        """Return the result of `exact` for --json."""
        solved = self.exact()
        return {} if solved is None else {"exact": {"solutions": solved[0], "answer": _lines(self.puzzle, solved[1])}}

    def drawn(self, tokens: np.ndarray) -> str:
        """Draw a question or an answer (S,): with the constraints if the puzzle draws them, else its cells."""
        if self.puzzle.draws_constraints:
            return self.puzzle.draw(tokens, self.question, self.relations)
        return "\n".join(_lines(self.puzzle, tokens))


def _obeys(answers: np.ndarray, puzzle: Puzzle, question: np.ndarray, relations: np.ndarray | None) -> np.ndarray:
    rows = None if relations is None else np.tile(relations, (len(answers), 1, 1))
    return puzzle.solved(np.tile(question, (len(answers), 1)), answers.astype(question.dtype), rows)


def counted(count: int, what: str) -> str:
    """Return '1 cell', '2 cells', ..."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def _lines(puzzle: Puzzle, tokens: np.ndarray) -> list[str]:
    return ["".join(character_of(puzzle.characters, token) for token in row) for row in puzzle.on_board(tokens)]


def family_of_run(run: Path, config: Config) -> Puzzle:
    """Return the puzzle family that a run was trained on. Raises ConfigError if its puzzles cannot be typed.

    For a network whose weights fit every set, return the family of the set or file in `data.directory`, or raise
    DatasetError if it is neither.
    """
    shape, directory = read_shape(run), config.data.directory
    if fits_any_set(config.model) and directory is not None:
        if splits := splits_of(directory):
            return puzzle_of(read_metadata(directory, splits[0]))
        if directory != read_config(run / "config.json").data.directory:
            return puzzle_named(directory)
        if len(config.data.directories) > 1:
            raise ConfigError(
                f"{run.name} solves many kinds of puzzles and needs the rules of yours: add data=FILE.py (a file that "
                "declares them), data=NAME (such as killer) or data=DIR (a set)"
            )
    try:
        return family_of(read_record(run)["task"], shape.seq_len, shape.vocab_size, shape.structure)
    except (DatasetError, KeyError) as error:
        raise ConfigError(f"{run} was trained on a set of no known family; no puzzle can be typed: {error}") from None


class Asked(NamedTuple):
    """A typed puzzle as a model takes it."""

    puzzle: Puzzle
    question: np.ndarray  # (S,)
    relations: np.ndarray | None  # (M, 1 + C + n_cells) its instances
    batch: Batch  # only this puzzle
    attempt: Callable[..., list[StepAnswers]]  # `answers_by_step` with the model, the steps and the search

    def first(self, seed: int) -> Solution:
        """Return the first attempt. Raises ConfigError if it fails and the puzzle contradicts itself."""
        with seeded(seed, self.batch.inputs.device):  # a random initial state
            by_step = self.attempt(self.batch)[0]
        solution = Solution(self.puzzle, self.question, by_step, self.relations)
        if not solution.right and (reason := self.puzzle.contradiction(self.question, self.relations)):
            raise ConfigError(f"the puzzle contradicts itself: {reason}")
        return solution

    def restart(self, numbers: torch.Tensor, seed: int, generator: torch.Generator, end: float) -> list[StepAnswers]:
        """Return the answers of restarts under random symmetries or, if the puzzle has none, from random states.

        end: the time at which the restarts stop after the step that they are at, as `time.monotonic` gives it.
        """
        batch = self.batch.each(lambda tensor: tensor.expand(len(numbers), *tensor.shape[1:]))
        symmetry, device = self.puzzle.symmetry, batch.inputs.device
        with seeded(seed, device):
            if symmetry is None:
                normal = PuzzleSeeds(numbers, seed).normal
                return self.attempt(batch, start=lambda state: random_like(state, normal), end=end)
            symmetries = draw_symmetries(len(numbers), symmetry, generator, numbers.to(device))
            return self.attempt(batch, symmetries=symmetries, end=end)


def _asked(run: Path, model: Reasoner, config: Config, text: str, steps: int | None) -> Asked:
    trained = family_of_run(run, config)
    if trained.name in WRITERS:
        raise ConfigError(f"{run} was trained on {trained.name}: use `reason solve {run} TEXT` to continue a text")
    puzzle = trained.sized(text)
    question, relations = puzzle.typed(text)
    # A board of the trained size has the training set's structure, which may declare more than the family.
    trained_size = puzzle == trained and not fits_any_set(config.model)
    shape = model.shape if trained_size else shape_of_puzzle(puzzle)
    if not accepted(model, shape):
        fit = next((name for name in pretrained_models() if card(name)["task"] == puzzle.task), None)
        fix = "type one of its size" + (f", or reason solve {fit} …" if fit else "")
        raise ConfigError(unreadable(model, shape) or f"the puzzle has {shape.difference(model.shape)}: {fix}")
    # Without a symmetry restarts begin from random states, which help little; hints help if training had some.
    stuck = puzzle.symmetry is None and config.data.hints > 0
    search = search_of(config.evaluation, puzzle, config.rollout.trained_steps, stuck)
    steps = steps or default_steps(config.rollout.trained_steps, shape, model.shape, search)
    device = next(model.parameters()).device
    tokens = torch.from_numpy(question.astype(np.int64)).to(device)  # (S,)
    if puzzle.causal:
        if (complete := COMPLETIONS.get(config.model.kind)) is None:
            raise ConfigError(f"{type(model).__name__} is not causal and cannot generate text; leave some cells open")
        tokens = complete(model, tokens, steps, puzzle.end)
        question = tokens.cpu().numpy().astype(question.dtype)
    tokens = tokens[None]  # (1, S)
    unscored, identifier = torch.full_like(tokens, IGNORE), torch.zeros(1, dtype=torch.long, device=device)
    instances = by_relation(None if relations is None else relations[None], shape.structure, device)

    def unroller(questions: torch.Tensor) -> Unroller:
        if search is None:
            return unroll
        none = questions.new_zeros(len(questions), dtype=torch.bool)  # solved: `until` ends at the first solution
        return search.unroller(puzzle, questions, config.loss.likelihood, lambda answers: none)

    until = None
    if puzzle.has_rules and not puzzle.causal:
        until = partial(_obeys, puzzle=puzzle, question=question, relations=relations)
    attempt = partial(answers_by_step, model, steps=steps, halting=halting_read(config), until=until, unroller=unroller)
    return Asked(puzzle, question, relations, Batch(tokens, unscored, identifier, instances, shape), attempt)


def check_limits(steps: int | None, restarts: int | None, seconds: float) -> None:
    """Raise ConfigError if an argument of `solve_text` is out of range."""
    for name, value, least in (("restarts", restarts, 1), ("steps", steps, 1), ("seconds", seconds, 0)):
        if value is not None and not value >= least:
            raise ConfigError(f"{name}={value}: at least {least} is needed")


def solve_text(
    run: Path,
    model: Reasoner,
    config: Config,
    text: str,
    steps: int | None = None,
    restarts: int | None = None,
    seconds: float = SECONDS,
    progress: Callable[[int], Any] = lambda size: None,
) -> Solution:
    """Solve a puzzle as a person types or draws it.

    steps: the maximum; None: twice the trained ones, more on larger boards and with a search. The first step whose
    answer obeys the rules is the last. If none does, restarts follow in batches until one obeys the rules, `seconds`
    have passed or `restarts` attempts (the first included) were made. The result is the answer that obeys the rules
    after the fewest steps of its batch, else the first attempt. progress: called with the size of each batch.

    Raises ConfigError if the puzzle contradicts itself, the model cannot accept it, or an argument is out of range, and
    DatasetError if the puzzle is malformed.
    """
    check_limits(steps, restarts, seconds)
    asked = _asked(run, model, config, text, steps)
    first = asked.first(config.seed)
    if asked.puzzle.causal or first.right is not False:
        return first
    symmetry = asked.puzzle.symmetry
    most = restarts or MANY if symmetry is None else symmetry.distinct(restarts or MANY)
    generator = torch.Generator(asked.batch.inputs.device).manual_seed(config.seed)
    made, end = 1, time.monotonic() + seconds  # attempts so far
    for batch_size in chain(BATCH_SIZES, repeat(BATCH_SIZES[-1])):
        if made == most or time.monotonic() >= end:
            break
        size = min(batch_size, most - made)
        for by_step in asked.restart(torch.arange(made, made + size), config.seed, generator, end):
            made += 1
            other = first._replace(by_step=by_step, restart=made, restarts=made)
            if other.right:
                return other
        progress(size)
    return first._replace(restarts=made)
