"""Carry, supervision steps and halting, in training and in evaluation (docs/math.md §3).

Training processes B rows. In a supervision step each row takes T calls of `Reasoner.step` (T = 1, except for looped
models); then the loss is computed, and the next step starts from the detached state (`supervise`):

    puzzles   halted rows take new ones, and the initial state        `_refilled`
    states    z ← step(z, x̂), T times with rollout.loops
    readouts  logits and halting values, with the gradient of this step only
    halted    the head says so, or N_super steps are taken            `_halts`

`reason.training.loop` computes the loss of the `Unroll` and updates the weights after every `grad_steps` of these.
Evaluation starts all puzzles together and never halts (`unroll`). No tensor is read on the host and every shape is
static, so that a step is queued on a GPU without waiting for the step before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial

import torch
from torch import Tensor

from reason.errors import ConfigError
from reason.models.base import Batch, Context, Readout, Reasoner, State, correct
from reason.models.states import mapped
from reason.settings.rollout import Halting, RolloutConfig


@dataclass(frozen=True)
class Carry:
    """Data that B rows keep from one supervision step to the next: puzzles, states, and which rows have halted."""

    batch: Batch
    state: State
    steps: Tensor  # (B,) int32, m: supervision steps taken on this puzzle
    halted: Tensor  # (B,) bool
    loader: Batch  # with `same-batch`: the current loader batch, which refills halted rows


@dataclass(frozen=True)
class Unroll:
    """The argument of a loss term: the T states and readouts of one backward pass (T = 1 without several loops)."""

    model: Reasoner
    batch: Batch
    context: Context
    states: tuple[State, ...]  # after each of the T loops
    readouts: tuple[Readout, ...]  # of the supervised loops: all T, or only the last
    active: Tensor  # (B,) bool: rows that count; a halted row waiting for its next puzzle does not
    last: Tensor  # (B,) bool: m ≥ N_super
    next_readout: Readout | None = None  # after one more supervision step, without gradient, for Q-learning
    before: State = None  # the state before the first of the T loops

    def row_mean(self, rows: Tensor) -> Tensor:
        """Return the sum of a term's rows (B,) over the active ones, divided by B."""
        return torch.where(self.active, rows, 0.0).mean()

    def cells(self, z: Tensor) -> Tensor:
        """Return (B, S, D): z (B, S', D) without its prefix."""
        return z[:, self.model.prefix :]


def first_carry(model: Reasoner, batch: Batch, config: RolloutConfig | None = None) -> Carry:
    """Return a carry whose rows have all halted: the next step gives each a puzzle and the initial state.

    A halted row with m ≤ 0 begins its next puzzle at step −m (`staggered`).
    """
    rows, device = len(batch.inputs), batch.inputs.device
    with torch.no_grad():
        model.check_mixer(context := model.encode(batch))
        state = model.initial_state(context)
    if wrong := [name for name, tensor in state._asdict().items() if tensor.shape[:1] != (rows,)]:
        shape = tuple(getattr(state, wrong[0]).shape)
        raise ConfigError(
            f"{type(model).__name__}.initial_state: {wrong[0]} has shape {shape}; ({rows}, S, D) is needed"
        )
    steps = torch.zeros(rows, dtype=torch.int32, device=device)
    if config is not None and config.staggered:
        steps -= torch.arange(rows, dtype=torch.int32, device=device) % config.supervision_steps
    halted = torch.ones(rows, dtype=torch.bool, device=device)
    return Carry(batch, mapped(state, Tensor.detach), steps, halted, batch)


def supervise(
    model: Reasoner,
    carry: Carry,
    draw: Callable[[], Batch],
    config: RolloutConfig,
    loops: int = 1,
    batch_start: bool = True,
) -> tuple[Carry, Unroll]:
    """Take a supervision step: refill the halted rows, step the model, decide which rows halt.

    The model takes T = `loops` steps, with the gradient through all of them. The new carry holds no gradient. Halted
    rows are refilled at the beginning of a step, not at the end of the step in which they halted. A loader batch lasts
    `accum_steps` supervision steps; `batch_start` is true at the first of them.
    """
    carry, active = _refilled(carry, draw, config, batch_start)
    context = model.encode(carry.batch)
    before = state = where(carry.halted, model.initial_state(context), carry.state)  # halted rows get the initial state
    steps = torch.where(carry.halted, -carry.steps.clamp(max=0), carry.steps) + 1
    states, readouts = [], []
    for t in range(1, loops + 1):
        state = model.step(state, context)
        states.append(state)
        if t == loops or config.loops.supervision == "per-loop":
            readouts.append(model.readout(state, context, t))
    readout = readouts[-1]
    last = steps >= config.supervision_steps
    kept = mapped(state, Tensor.detach)
    further = None
    if config.halting == "q-learning":
        with torch.no_grad():
            ahead, fixed = kept, context.detach()
            for _ in range(loops):
                ahead = model.step(ahead, fixed)
            further = model.readout(ahead, fixed)
    with torch.no_grad():
        halted = _halts(readout, steps, last, config) | ~active
    return (
        replace(carry, state=kept, steps=steps, halted=halted),
        Unroll(
            model,
            carry.batch,
            context,
            states=tuple(states),
            readouts=tuple(readouts),
            active=active,
            last=last,
            next_readout=further,
            before=before,
        ),
    )


def _refilled(
    carry: Carry, draw: Callable[[], Batch], config: RolloutConfig, batch_start: bool
) -> tuple[Carry, Tensor]:
    """Return the carry with the puzzles of the next step, and the active rows (B,)."""
    all_rows = torch.ones_like(carry.halted)
    match config.carry:
        case "persistent":  # draws B puzzles every step, as HRM and TRM do; those of running rows are discarded
            return replace(carry, batch=_filled(carry, draw())), all_rows
        case "same-batch":
            loader = draw() if batch_start else carry.loader
            return replace(carry, batch=_filled(carry, loader), loader=loader), all_rows
        case "fresh" | "handover" if not batch_start:  # halted rows wait for the next loader batch
            return carry, ~carry.halted
        case "fresh":
            return replace(carry, batch=draw(), halted=all_rows), all_rows
        case "handover":
            return replace(carry, batch=draw()), all_rows


def _halts(readout: Readout, steps: Tensor, last: Tensor, config: RolloutConfig) -> Tensor:
    """Return the rows (B,) that halt: m ≥ N_super, or m ≥ m_min and the head says halt.

    m_min is uniform in {2..N_super} with probability ε, else 1.
    """
    if config.supervision_steps == 1 or config.halting == "none":
        return last
    if readout.q_halt is None:
        return last
    if config.halting == "q-learning":
        assert readout.q_continue is not None, "the config checks that the model has both Q values"
        done = readout.q_halt > readout.q_continue
    else:
        done = readout.q_halt > 0
    # Exploration: some rows continue although the head says halt, so that it also learns from later steps.
    explores = torch.rand(steps.shape, device=steps.device) < config.halt_exploration_prob
    least = torch.randint_like(steps, 2, config.supervision_steps + 1) * explores
    return last | (done & (steps >= least))


@dataclass(frozen=True)
class StepRecord:
    """One evaluated step of a batch; evaluation never halts. Readout, answer and accuracy are computed on first access.

    step: m, counted from 1. rows: (B,) the puzzles' numbers in their split, if they come from one.
    """

    model: Reasoner
    step: int
    batch: Batch
    context: Context
    before: State
    state: State
    rows: Tensor | None = None
    rules: Callable[[StepRecord], Tensor] | None = None  # (B,) bool: do the rules hold? for several solutions

    def read(self, state: State) -> Readout:
        """Return the readout of any state as of this step."""
        return self.model.readout(state, self.context, self.step)

    @cached_property
    def readout(self) -> Readout:
        """The readout of the state after the step."""
        return self.read(self.state)

    @property
    def logits(self) -> Tensor:
        """(B, S, V)."""
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
    """q_halt, whose σ is trained to be the probability of an exact answer; None: no head, or nothing trains it."""
    return None if readout.q_halt is None or halting is None else readout.q_halt.float()


Clues = Callable[[StepRecord], tuple[Tensor, Tensor] | None]


def unroll(
    model: Reasoner,
    batch: Batch,
    steps: int,
    rows: Tensor | None = None,
    *,
    start: Callable[[State], State] | None = None,
    stepper: Callable[[State, Context], State] | None = None,
    rules: Callable[[StepRecord], Tensor] | None = None,
    clues: Clues | None = None,
) -> Iterator[StepRecord]:
    """Take `steps` steps without halting; `start` may replace the initial state, `stepper` the method `model.step`.

    rules: see `StepRecord`. clues(record) returns (new questions (B, S), rows to keep (B,)) or None. Kept rows are
    frozen; all other rows restart from their new question (`reason.extensions.decimation`).
    """

    def begin(inputs: Tensor) -> tuple[Context, State]:
        context = model.encode(batch._replace(inputs=inputs))
        state = model.initial_state(context)
        return context, state if start is None else start(state)

    (context, state), frozen = begin(batch.inputs), None
    for step in range(1, steps + 1):
        before, state = state, (stepper or model.step)(state, context)
        state = state if frozen is None else where(frozen, before, state)
        record = StepRecord(model, step, batch, context, before, state, rows, rules)
        yield record
        if clues is not None and step < steps and (clued := clues(record)) is not None:
            inputs, frozen = clued
            context, fresh = begin(inputs)
            state = where(frozen, state, fresh)
        del record  # frees its readout before the next step allocates


def where(rows: Tensor, chosen: State, other: State) -> State:
    """Select for each row the chosen state if `rows` is true, else the other."""
    return mapped(chosen, partial(_rows, rows), other)


def _filled(carry: Carry, fresh: Batch) -> Batch:
    """Return the carry's puzzles, halted rows taken from `fresh`."""
    return fresh.each(partial(_rows, carry.halted), carry.batch)


def _rows(rows: Tensor, chosen: Tensor, other: Tensor) -> Tensor:
    """Select for each row the chosen tensor (B, ...) if `rows` is true, else the other."""
    return torch.where(rows.view(-1, *[1] * (chosen.ndim - 1)), chosen, other)
