"""The Evaluator computes every supervision step of a split once; consumers process the records of the steps.

A study is a Consumer and a Section, both listed in reason/evaluation/suite.py, to which extensions add theirs.
"""

from __future__ import annotations

import contextlib
import json
import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from datasets_gen.progress import Progress
from datasets_gen.puzzles import Puzzle, known_puzzle
from reason.data.puzzles import PuzzleData
from reason.errors import ConfigError
from reason.evaluation.config import EvaluationConfig, Search, search_of
from reason.losses.lm import Likelihood
from reason.models.base import IGNORE, Context, Reasoner, Shape, State
from reason.models.states import mapped, rows_of
from reason.nn.dtypes import finite
from reason.plugins import defined
from reason.rollout import StepRecord, Unroller, unroll
from reason.settings.rollout import Halting
from reason.training.generators import seeded
from reason.training.world import World


class PuzzleSeeds:
    """One random stream for each of B puzzles, seeded by (seed, purpose, the puzzle's number in its split).

    So a puzzle's random numbers do not depend on the batch size, the number of processes, or other studies.
    """

    def __init__(self, numbers: Tensor, seed: int, *purpose: int):
        self.keys = [(seed, *purpose, number) for number in numbers.tolist()]
        self.streams = [np.random.default_rng(key) for key in self.keys]

    def normal(self, z: Tensor) -> Tensor:
        """Draw N(0, 1) in z's shape (B, …), type and device."""
        drawn = np.stack([stream.standard_normal(z.shape[1:], np.float32) for stream in self.streams])
        return torch.from_numpy(drawn).to(z)


FOR_STARTS = 0  # purpose ids of random streams; extensions use the next numbers
Columns = Mapping[str, np.ndarray]  # name → array; the last axis is puzzles (of sums: batches)


class Consumer:
    """One evaluation: it processes the step records of a pass and returns results."""

    cost = ""  # its cost beyond the one pass, as text
    order = 0  # fixed order of consumers, so that random draws do not depend on the order of loading

    def __init__(self, evaluator: Evaluator):
        """Store the settings it needs. Raises ConfigError if model, set or settings do not allow this evaluation."""
        self.evaluator = evaluator
        self.steps = evaluator.steps  # it observes so many steps of each batch, from the first on

    def observe(self, record: StepRecord) -> Columns | None:
        """Process steps 1 … `steps` of a batch; at the last step, return the columns to keep, as numpy arrays."""
        return None

    def result(self, seen: Columns) -> dict[str, Any]:
        """Return its part of results.json, from the columns of all consumers; called in the first process only."""
        return {}


class StepColumns:
    """(B, …) tensors of successive steps, by name: on the device until the batch ends, then copied, one transfer each.

    Memory is allocated at the first step. Small lasting tensors between large temporary ones would fragment the
    allocator's memory, which grew by a state a step.
    """

    def __init__(self, steps: int) -> None:
        self._steps, self._filled, self._columns = steps, 0, dict[str, Tensor]()

    def add(self, values: Mapping[str, Tensor]) -> None:
        """Keep the values of a step."""
        for name, value in values.items():
            if name not in self._columns:
                self._columns[name] = value.new_empty((self._steps, *value.shape))
            self._columns[name][self._filled] = value
        self._filled += 1

    def take(self) -> dict[str, np.ndarray]:
        """Return the values by name, (T, B, …) each, and forget them."""
        columns, self._columns, self._filled = self._columns, {}, 0
        return {name: values.cpu().numpy() for name, values in columns.items()}


class Accuracy(Consumer):
    """`exact` (T, N) bool; `right` (T, N), the number of right scored cells; `scored` (1, N), that of scored cells.

    exact_by_step: share of puzzles whose every scored cell is right (with several solutions: the rules hold).
    cell_by_step: mean over puzzles of the share of scored cells that are right. Only the last step if `first` = T.
    """

    def __init__(self, evaluator: Evaluator, first: int = 1):
        super().__init__(evaluator)
        self.first = first
        self._kept = StepColumns(self.steps - first + 1)

    def observe(self, record: StepRecord) -> Columns | None:
        """Compare the answers with the labels."""
        if record.step >= self.first:
            self._kept.add({"exact": record.exact, "right": record.right.sum(-1, dtype=torch.int32)})
        if record.step < self.steps:
            return None
        scored = (record.batch.labels != IGNORE).sum(-1, dtype=torch.int32)
        return self._kept.take() | {"scored": scored[None].cpu().numpy()}

    def result(self, seen: Columns) -> dict[str, Any]:
        """Return shares by step: index 0 of each list is step `first`."""
        return {
            "exact_by_step": seen["exact"].mean(1).tolist(),
            "cell_by_step": (seen["right"] / np.maximum(seen["scored"], 1)).mean(1).tolist(),
        }


@dataclass(frozen=True)
class Evaluator:
    """A model, a split, and the settings of the evaluation."""

    model: Reasoner
    data: PuzzleData
    settings: EvaluationConfig
    trained_steps: int
    likelihood: Likelihood = "softmax"
    halting: Halting | None = "bce"  # None: no loss term trained the head
    seed: int = 0
    progress: bool = True
    world: World = field(default_factory=World)
    fill: bool = False  # equal batches, the last one padded, so that compiled code sees one shape
    step: Callable[[State, Context], State] | None = None  # in place of model.step: a CUDA graph

    @property
    def steps(self) -> int:
        """T: `evaluation.steps` if it is set, else `default_steps`."""
        if self.settings.steps is not None:
            return self.settings.steps
        return default_steps(self.trained_steps, self.data.shape, self.model.shape, self.search)

    @cached_property
    def search(self) -> Search | None:
        """Return the search strategy, or None."""
        return search_of(self.settings, self.puzzle, self.trained_steps)

    @cached_property
    def puzzle(self) -> Puzzle | None:
        """Return the set's family, or None if it is unknown: then there are no rules and no drawings."""
        return known_puzzle(self.data.metadata)

    @cached_property
    def examples(self) -> Tensor:
        """Return the puzzles (N,) of the first `limit` that have a scored cell. Raises ConfigError if none has."""
        count = self.asked
        scored = self.data.scored_examples(count)
        if not len(scored):
            raise ConfigError(
                f"no label of the {self.data.split} split of {self.data.directory} is scored; name another "
                "evaluation.split"
            )
        if len(scored) < count and self.world.first:
            warnings.warn(
                f"{count - len(scored)} of {count} puzzles have no scored cell and are left out", stacklevel=2
            )
        return scored

    def start(self, numbers: Tensor, restart: int = 0) -> Callable[[State], State] | None:
        """Return a function that draws each initial state from its puzzle's own stream; None if no state is random.

        numbers: (B,) the puzzles' numbers in their split. With these streams the pass, the policies, the boards and
        the probes start from the same states.
        """
        if not self.model.random_start:
            return None
        return lambda state: mapped(state, PuzzleSeeds(numbers, self.seed, FOR_STARTS, restart).normal)

    def unroller(self, questions: Tensor, rows: Tensor) -> Unroller:
        """Return the function that takes the steps for questions (B, S) of puzzles `rows` (B,): `unroll`, or a search.

        The rules tell which answers are solutions. The halting head cannot: trained on puzzles that have a solution,
        it accepts answers to wrongly clued puzzles, and recognizes only one of several solutions.
        """
        if self.search is None or self.puzzle is None:
            return unroll
        return self.search.unroller(self.puzzle, questions, self.likelihood, partial(self._obey, questions, rows))

    def own_randomness(self) -> contextlib.AbstractContextManager[None]:
        """Seed the default generators within the block; each process has its own stream."""
        return seeded(self.seed + self.world.rank, self.data.device)

    @property
    def _own(self) -> range:
        """Return the positions in `examples` that this process evaluates."""
        return self.world.portion(len(self.examples))

    @property
    def _size(self) -> int:
        """The number of rows of a batch."""
        count, size = len(self._own), self.settings.batch_size
        return -(-count // -(-count // size)) if self.fill and count else size

    def warm_up(self) -> None:
        """Take a step of the first batch, so that the measured time excludes compilation."""
        rows = self.examples[self._own.start :][: self._size]
        with torch.inference_mode(), self.own_randomness():
            next(unroll(self.model.eval(), self.data.take(rows), 1))

    @property
    def asked(self) -> int:
        """Return the number of selected puzzles of the split, with and without a scored cell."""
        return min(len(self.data), self.settings.limit or len(self.data))

    def observe(self, consumers: Sequence[Consumer]) -> tuple[dict[str, np.ndarray], float]:
        """Step through every puzzle once; return the columns of all processes and the seconds of the pass.

        Each process evaluates its portion of the puzzles.
        """
        self.model.eval()
        steps = max(consumer.steps for consumer in consumers)
        size, own = self._size, self._own
        batches: list[dict[str, np.ndarray]] = []
        started = time.perf_counter()
        total = steps * len(range(own.start, own.stop, size))
        with Progress(total=total, unit="step", desc="evaluating", disable=not self.progress) as bar:
            for first in range(own.start, own.stop, size):
                rows = self.examples[first : min(first + size, own.stop)]
                padded = torch.cat([rows, rows[-1:].expand(size - len(rows))]) if self.fill else rows
                columns: dict[str, np.ndarray] = {}
                owners: dict[str, Consumer] = {}
                batch = self.data.take(padded)
                take_steps = self.unroller(batch.inputs, padded)
                for record in take_steps(self.model, batch, steps, self.start(padded), self.step):
                    record = record if len(rows) == len(padded) else _first_rows(record, len(rows))
                    record = replace(record, rows=rows, rules=self.rules)
                    for consumer in consumers:
                        if record.step <= consumer.steps:
                            columns |= _columns(consumer, record, owners)
                    bar.update()
                batches.append(columns)
        batches = self.world.collect(batches)
        seen = {name: np.concatenate([columns[name] for columns in batches], axis=-1) for name in batches[0]}
        return seen, time.perf_counter() - started

    @property
    def rules(self) -> Callable[[StepRecord], Tensor] | None:
        """Return the test of exact answers for puzzles with several solutions; None: the labels decide."""
        return self._rules_hold if self.puzzle is not None and self.puzzle.multiple_solutions else None

    def _rules_hold(self, record: StepRecord) -> Tensor:
        """Return (B,) bool: the answer obeys the puzzle's rules."""
        assert record.rows is not None
        return self._obey(narrow(record.batch.inputs, record), record.rows, narrow(record.answer, record))

    def _obey(self, questions: Tensor, rows: Tensor, answers: Tensor) -> Tensor:
        """Return (B,) bool: which answers (B, S) obey the rules of the puzzles `rows`, checked on the host."""
        assert self.puzzle is not None
        instances = self.data.instances_of(rows)
        held = self.puzzle.solved(questions.cpu().numpy(), answers.cpu().numpy(), instances)
        return torch.from_numpy(held).to(answers.device)


def default_steps(trained_steps: int, shape: Shape, trained: Shape, search: Search | None = None) -> int:
    """Return twice the trained steps, times the ratio of rows on a larger board: one step extends a path by few cells.

    A search may need more. trained: the shape of the run's first set.
    """
    rows, of = (each.structure.grid[0] if each.structure.grid else 1 for each in (shape, trained))
    return max(2 * trained_steps * max(1, math.ceil(rows / of)), search.least if search else 0)


def evaluate(evaluator: Evaluator, consumers: list[Consumer]) -> dict[str, Any]:
    """Make one pass and return every consumer's part of results.json; processes other than the first return nothing.

    Random numbers come from the evaluator's seed; each process draws from its own stream.
    """
    with evaluator.own_randomness():
        with torch.inference_mode():
            seen, seconds = evaluator.observe(consumers)
        if not evaluator.world.first:
            return {}
        puzzles, asked = len(evaluator.examples), evaluator.asked
        results: dict[str, Any] = {"puzzles": puzzles, "unscored": asked - puzzles, "seconds": seconds}
        with torch.compiler.set_stance("force_eager"):  # few puzzles or shrinking batches: the shapes change each time
            for consumer in consumers:
                for key, value in consumer.result(seen).items():
                    try:
                        json.dumps(value)
                    except (TypeError, ValueError) as error:
                        problem = f"{key} is not JSON ({error}); return lists and numbers, of an array its tolist()"
                        raise ConfigError(f"{defined(type(consumer))}.result: {problem}") from None
                    results[key] = value
    return finite(results)


def narrow(tokens: Tensor, record: StepRecord) -> Tensor:
    """Convert tokens for the host, to a byte each if the vocabulary allows it."""
    return tokens.to(torch.uint8 if record.logits.shape[-1] <= 256 else torch.int32)


def _columns(consumer: Consumer, record: StepRecord, owners: dict[str, Consumer]) -> Columns:
    """Return a consumer's columns at a step. Raises ConfigError if another consumer has a column of that name."""
    columns = consumer.observe(record) or {}
    for name in columns:
        if (owner := owners.setdefault(name, consumer)) is not consumer:
            both = " and ".join(defined(type(each)) for each in (owner, consumer))
            raise ConfigError(f"{both} return a column {name}; give one another name")
    return columns


def _first_rows(record: StepRecord, count: int) -> StepRecord:
    """Return the record of the first `count` rows."""
    before, state = (rows_of(s, slice(count)) for s in (record.before, record.state))
    batch, context = record.batch.each(lambda part: part[:count]), record.context.rows(slice(count))
    return replace(record, batch=batch, context=context, before=before, state=state)
