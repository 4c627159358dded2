"""Carry, supervision steps and halting: one loop, shared by training and evaluation (MATH.md §1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

import torch
from pydantic import Field, model_validator
from torch import Tensor

from reason.models.base import Batch, Readout, Reasoner, State
from reason.section import Section

Rows = TypeVar("Rows", bound=tuple[Any, ...])


class RolloutConfig(Section):
    """How long a puzzle is thought about in training, and what happens between steps."""

    supervision_steps: int = Field(16, ge=1, description="N_super: a row halts at the latest after so many")
    accum_steps: int = Field(1, ge=1, description="N_accum: supervision steps per loader batch")
    grad_steps: int = Field(1, ge=1, description="N_grad: supervision steps per optimizer step")
    carry: Literal["persistent", "same-batch", "fresh", "handover"] = Field(
        "persistent",
        description="persistent: a row keeps its puzzle until it halts, then takes a new one; same-batch: then takes "
        "the loader's row again; fresh: every loader batch resets all rows; handover: every loader batch "
        "replaces all puzzles, states stay",
    )
    halting: Literal["bce", "q-learning"] = Field(
        "bce", description="bce: halt when q_halt > 0 (TRM); q-learning: when q_halt > q_continue (HRM)"
    )
    exploration: float = Field(0.1, ge=0, le=1, description="ε: chance that a step demands m ≥ uniform{2..N_super}")

    @model_validator(mode="after")
    def _reaches_the_last_step(self) -> RolloutConfig:
        if self.carry == "fresh" and self.accum_steps < self.supervision_steps:
            raise ValueError(
                f"carry=fresh starts all rows anew every {self.accum_steps} steps, so none would ever take "
                f"{self.supervision_steps}: type rollout.accum_steps={self.supervision_steps}"
            )
        return self


@dataclass(frozen=True)
class Carry:
    """What B rows take from one supervision step to the next."""

    batch: Batch
    state: State
    steps: Tensor  # (B,) int32, m: supervision steps taken on this puzzle
    halted: Tensor  # (B,) bool
    loader: Batch  # the loader's last batch, which `same-batch` goes back to


@dataclass(frozen=True)
class Unroll:
    """One backward's view, all that a loss term may look at: T states and readouts (T = 1 for recursive models)."""

    model: Reasoner
    batch: Batch
    x: Tensor  # (B, S', D)
    states: tuple[State, ...]
    readouts: tuple[Readout, ...]
    active: Tensor  # (B,) bool: rows that count; a halted row waiting for its next puzzle does not
    last: Tensor  # (B,) bool: m = N_super
    next_readout: Readout | None = None  # one step further, without gradient, for Q-learning


def first_carry(model: Reasoner, batch: Batch) -> Carry:
    """A carry whose rows have all halted: the next step gives each a puzzle and the initial state."""
    rows, device = len(batch.inputs), batch.inputs.device
    with torch.no_grad():
        state = model.initial_state(model.encode(batch))
    steps = torch.zeros(rows, dtype=torch.int32, device=device)
    return Carry(batch, _detached(state), steps, torch.ones(rows, dtype=torch.bool, device=device), batch)


def supervise(
    model: Reasoner, carry: Carry, draw: Callable[[], Batch], config: RolloutConfig, index: int
) -> tuple[Carry, Unroll]:
    """Supervision step number `index` (counted from 0) of a training run: rows refilled, one step, halting.

    The new carry holds no gradient.
    """
    carry, active = _refilled(carry, draw, config, batch_start=index % config.accum_steps == 0)
    x = model.encode(carry.batch)
    state = _where(carry.halted & active, model.initial_state(x), carry.state)
    steps = torch.where(carry.halted, 0, carry.steps) + 1
    state = model.step(state, x)
    readout = model.readout(state)
    last = steps >= config.supervision_steps
    kept = _detached(state)
    further = None
    if config.halting == "q-learning":
        with torch.no_grad():
            further = model.readout(model.step(kept, x.detach()))
    with torch.no_grad():
        halted = _halts(readout, steps, last, config) | ~active
    return (
        replace(carry, state=kept, steps=steps, halted=halted),
        Unroll(model, carry.batch, x, (state,), (readout,), active, last, further),
    )


def _refilled(
    carry: Carry, draw: Callable[[], Batch], config: RolloutConfig, batch_start: bool
) -> tuple[Carry, Tensor]:
    """The carry with its puzzles for the coming step, and the rows (B,) that take part in it."""
    everyone = torch.ones_like(carry.halted)
    match config.carry:
        case "persistent":
            return replace(carry, batch=_where(carry.halted, draw(), carry.batch)), everyone
        case "same-batch":
            loader = draw() if batch_start else carry.loader
            return replace(carry, batch=_where(carry.halted, loader, carry.batch), loader=loader), everyone
        case "fresh" | "handover" if not batch_start:
            return carry, ~carry.halted
        case "fresh":
            return replace(carry, batch=draw(), halted=everyone), everyone
        case "handover":
            return replace(carry, batch=draw()), everyone


def _halts(readout: Readout, steps: Tensor, last: Tensor, config: RolloutConfig) -> Tensor:
    """m ≥ N_super, or the head says so and m ≥ m_min, uniform in {2..N_super} with probability ε, else 1."""
    if config.supervision_steps == 1 or readout.halt is None:
        return last
    threshold: Tensor | float = 0.0
    if config.halting == "q-learning":
        assert readout.go_on is not None, "the config checks that the model has both Q values"
        threshold = readout.go_on
    explores = torch.rand_like(readout.halt) < config.exploration
    least = torch.randint_like(steps, 2, config.supervision_steps + 1) * explores
    return last | ((readout.halt > threshold) & (steps >= least))


def unroll(model: Reasoner, batch: Batch, steps: int) -> Iterator[tuple[State, Readout]]:
    """State and readout after each of `steps` supervision steps from the initial state, nothing halting."""
    for _, state, readout in unroll_states(model, batch, steps):
        yield state, readout


def unroll_states(
    model: Reasoner, batch: Batch, steps: int, start: State | None = None
) -> Iterator[tuple[State, State, Readout]]:
    """The same, each with the state before it; from `start` where one is given."""
    x = model.encode(batch)
    state = model.initial_state(x) if start is None else start
    for _ in range(steps):
        before, state = state, model.step(state, x)
        yield before, state, model.readout(state)


def _detached(state: State) -> State:
    return type(state)(*(z.detach() for z in state))


def _where(rows: Tensor, chosen: Rows, other: Rows) -> Rows:
    """Row by row one of two named tuples of (B, ...) tensors."""
    return type(chosen)(
        *(torch.where(rows.view(-1, *[1] * (a.ndim - 1)), a, b) for a, b in zip(chosen, other, strict=True))
    )
