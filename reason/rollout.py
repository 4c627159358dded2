"""Carry, supervision steps and halting, in training and in evaluation (docs/math.md §3).

Training processes B rows, each with a puzzle of its own. `supervise` takes one supervision step:

    refill    halted rows take new puzzles and the initial state       `_refill`
    step      T calls of `Reasoner.step` (T = 1, except for looped models)
    readout   logits and halting values, with the gradient of this step only
    halt      rows whose head says so, or which have taken N_super steps    `_halted_rows`

`reason.training.loop` computes the loss of the returned `SupervisionStep` and updates the weights after every
`grad_steps` of them. The next step starts from the detached states. In evaluation (`unroll`) all puzzles start together
and take the same number of steps. No tensor is read on the host and every shape is static, so that a step is queued on
a GPU without waiting for the step before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial

import torch
from torch import Tensor

from reason.errors import ConfigError
from reason.models.base import Batch, Context, Readout, Reasoner, State, correct
from reason.models.layout import LayoutModel
from reason.models.states import mapped
from reason.settings.rollout import Halting, RolloutConfig


@dataclass(frozen=True)
class Carry:
    """Data that B rows keep from one supervision step to the next: puzzles, states, and which rows have halted."""

    batch: Batch
    state: State
    steps: Tensor  # (B,) int32: supervision steps taken on this puzzle; of a halted row 0, on its next puzzle
    halted: Tensor  # (B,) bool
    loader: Batch  # with `same-batch`: the current loader batch, which refills halted rows


@dataclass(frozen=True)
class SupervisionStep:
    """The argument of a loss term: the T states and readouts of one backward pass (T = 1 without several loops)."""

    model: Reasoner
    batch: Batch
    context: Context
    states: tuple[State, ...]  # after each of the T loops
    readouts: tuple[Readout, ...]  # of the supervised loops: all T, or only the last
    active: Tensor  # (B,) bool: rows that count; a halted row waiting for its next puzzle does not
    steps: Tensor  # (B,) int32, m: supervision steps taken on this puzzle, with this one
    is_last_step: Tensor  # (B,) bool: m ≥ N_super
    next_readout: Readout | None = None  # after one more supervision step, without gradient, for Q-learning
    before: State = None  # the state before the first of the T loops

    def row_mean(self, rows: Tensor) -> Tensor:
        """Return the sum of a term's rows (B,) over the active ones, divided by B."""
        return torch.where(self.active, rows, 0.0).mean()

    def cells(self, z: Tensor) -> Tensor:
        """Return x̂ or a part of a state, z (B, S', D), at the cells' positions, (B, S·K, D)."""
        return self.context.cells(z)


def first_carry(model: Reasoner, batch: Batch, config: RolloutConfig | None = None, first: int = 0) -> Carry:
    """Return a carry whose rows have all halted: the next step gives each a puzzle and the initial state.

    With `staggered`, the first puzzle of row i has i mod N_super steps behind it; rows count from `first`.
    """
    rows = len(batch.inputs)
    device = batch.inputs.device
    with torch.no_grad():
        context = model.encode(batch)
        if isinstance(model, LayoutModel):
            model.check_mixer(context)
        state = model.initial_state(context)
    if wrong := [name for name, tensor in state._asdict().items() if tensor.shape[:1] != (rows,)]:
        shape = tuple(getattr(state, wrong[0]).shape)
        raise ConfigError(
            f"{type(model).__name__}.initial_state: {wrong[0]} has shape {shape}; ({rows}, S, D) is needed"
        )
    steps = torch.zeros(rows, dtype=torch.int32, device=device)
    if config is not None and config.staggered:
        steps = torch.arange(first, first + rows, dtype=torch.int32, device=device) % config.supervision_steps
    halted = torch.ones(rows, dtype=torch.bool, device=device)
    return Carry(batch, mapped(state, Tensor.detach), steps, halted, batch)


def supervise(
    model: Reasoner,
    carry: Carry,
    draw: Callable[[], Batch],
    config: RolloutConfig,
    loops: int = 1,
    new_loader_batch: bool = True,
) -> tuple[Carry, SupervisionStep]:
    """Take a supervision step: refill the halted rows, step the model, decide which rows halt.

    The model takes T = `loops` steps, with the gradient through all of them. The new carry holds no gradient. Halted
    rows are refilled at the beginning of a step, not at the end of the step in which they halted. A loader batch lasts
    `accum_steps` supervision steps; `new_loader_batch` is true at the first of them.
    """
    carry, active = _refill(carry, draw, config, new_loader_batch)
    context = model.encode(carry.batch)
    state = before = select_state(carry.halted, model.initial_state(context), carry.state)
    steps = carry.steps + 1  # m of this step

    states: list[State] = []
    readouts: list[Readout] = []
    for t in range(1, loops + 1):
        state = model.step(state, context)
        states.append(state)
        if t == loops or config.loops.supervision == "per-loop":
            readouts.append(model.readout(state, context, t))

    is_last_step = steps >= config.supervision_steps
    carried_state = mapped(state, Tensor.detach)
    q_learning = config.halting == "q-learning"
    next_readout = _look_ahead(model, carried_state, context, loops) if q_learning else None
    halted = _halted_rows(readouts[-1], steps, is_last_step, config) | ~active

    carry = replace(carry, state=carried_state, steps=torch.where(halted, 0, steps), halted=halted)
    step = SupervisionStep(
        model,
        carry.batch,
        context,
        states=tuple(states),
        readouts=tuple(readouts),
        active=active,
        steps=steps,
        is_last_step=is_last_step,
        next_readout=next_readout,
        before=before,
    )
    return carry, step


def _refill(
    carry: Carry, draw: Callable[[], Batch], config: RolloutConfig, new_loader_batch: bool
) -> tuple[Carry, Tensor]:
    """Return the carry with the puzzles of this step, and the active rows (B,)."""
    all_rows = torch.ones_like(carry.halted)
    take_new = partial(select_rows, carry.halted)  # (new tensor, present tensor) -> tensor
    match config.carry:
        case "persistent":  # draws B puzzles every step, as HRM and TRM do; those of running rows are discarded
            return replace(carry, batch=draw().each(take_new, carry.batch)), all_rows
        case "same-batch":
            loader = draw() if new_loader_batch else carry.loader
            return replace(carry, batch=loader.each(take_new, carry.batch), loader=loader), all_rows
        case "handover" if not new_loader_batch:  # halted rows wait for the next loader batch
            return carry, ~carry.halted
        case "handover":
            return replace(carry, batch=draw()), all_rows


@torch.no_grad()
def _look_ahead(model: Reasoner, state: State, context: Context, loops: int) -> Readout:
    """Return the readout after one more supervision step, for Q-learning."""
    for _ in range(loops):
        state = model.step(state, context)
    return model.readout(state, context)


@torch.no_grad()
def _halted_rows(readout: Readout, steps: Tensor, is_last_step: Tensor, config: RolloutConfig) -> Tensor:
    """Return the rows (B,) that halt: m ≥ N_super, or m ≥ m_min and the head says halt.

    m_min is uniform in {2..N_super} with probability ε, else 1.
    """
    if config.supervision_steps == 1 or config.halting == "none" or readout.q_halt is None:
        return is_last_step
    if config.halting == "q-learning":
        assert readout.q_continue is not None, "the config checks that the model has both Q values"
        wants_to_halt = readout.q_halt > readout.q_continue
    else:
        wants_to_halt = readout.q_halt > 0
    # Exploration: some rows continue although the head says halt, so that it also learns from later steps.
    explores = torch.rand(steps.shape, device=steps.device) < config.halt_exploration_prob
    min_halt_steps = torch.randint_like(steps, 2, config.supervision_steps + 1) * explores
    return is_last_step | (wants_to_halt & (steps >= min_halt_steps))


@dataclass(frozen=True)
class StepRecord:
    """One evaluated step of a batch; evaluation never halts. Readout, answer and accuracy are computed on first access.

    step: m, counted from 1. An evaluation adds `rows`, the puzzles' numbers (B,) in their split, and, for puzzles with
    several solutions, `rules`, which says which answers (B,) obey the rules.
    """

    model: Reasoner
    step: int
    batch: Batch
    context: Context
    before: State
    state: State
    rows: Tensor | None = None
    rules: Callable[[StepRecord], Tensor] | None = None

    def read(self, state: State) -> Readout:
        """Return the readout of any state as of this step."""
        return self.model.readout(state, self.context, self.step)

    @cached_property
    def readout(self) -> Readout:
        """Return the readout of the state after the step."""
        return self.read(self.state)

    @property
    def logits(self) -> Tensor:
        """Return the logits (B, S, V)."""
        return self.readout.logits

    @property
    def q_halt(self) -> Tensor | None:
        """Return the logit (B,) of the halting head, or None if the model has none."""
        return self.readout.q_halt

    @cached_property
    def answer(self) -> Tensor:
        """Return the likeliest tokens (B, S)."""
        return self.logits.argmax(-1)

    @cached_property
    def right(self) -> Tensor:
        """Return (B, S) bool: scored cells that are right."""
        return correct(self.answer, self.batch.labels)[0]

    @cached_property
    def exact(self) -> Tensor:
        """Return (B,) bool: all scored cells (at least one) are right; with several solutions: the rules hold."""
        if self.rules is not None:
            return self.rules(self)
        return correct(self.answer, self.batch.labels)[1]


def exact_logit(readout: Readout, halting: Halting | None) -> Tensor | None:
    """Return q_halt, whose σ is trained to be P(exact answer and marks); None if no loss trains a head."""
    return None if readout.q_halt is None or halting is None else readout.q_halt.float()


Unroller = Callable[..., Iterator[StepRecord]]  # called as `unroll` is


def unroll(
    model: Reasoner,
    batch: Batch,
    steps: int,
    start: Callable[[State], State] | None = None,
    step: Callable[[State, Context], State] | None = None,
) -> Iterator[StepRecord]:
    """Take `steps` steps without halting; `start` may replace the initial state, `step` the method `model.step`."""
    context = model.encode(batch)
    state = model.initial_state(context)
    if start is not None:
        state = start(state)
    for m in range(1, steps + 1):
        before = state
        state = (step or model.step)(before, context)
        yield StepRecord(model, m, batch, context, before, state)


def select_state(rows: Tensor, chosen: State, other: State) -> State:
    """Return the chosen state in the rows (B,) that are true, the other state in the rest."""
    return mapped(chosen, partial(select_rows, rows), other)


def select_rows(rows: Tensor, chosen: Tensor, other: Tensor) -> Tensor:
    """Return chosen (B, ...) in the rows (B,) that are true, other (B, ...) in the rest."""
    return torch.where(rows.view(-1, *[1] * (chosen.ndim - 1)), chosen, other)
