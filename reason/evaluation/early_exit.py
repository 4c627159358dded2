"""Early exit: stopping policies calibrated and at work; a finished row leaves the batch, the next puzzle comes in."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from datasets_gen.layout import splits_of
from reason.data import PuzzleData
from reason.errors import ConfigError
from reason.evaluation.accuracy import Accuracy
from reason.evaluation.evaluator import Columns, Consumer, Evaluator
from reason.evaluation.halting_signals import Signals, signals, survived
from reason.evaluation.policies import (
    FIXED,
    Allowance,
    Policy,
    frontier,
    outcome,
    outcomes_of,
    policies_for,
    signals_in,
)
from reason.evaluation.probes import mapped, parts
from reason.models.base import Batch, Readout, State
from reason.models.record import StepRecord
from reason.training.distributed import World


class Policies(Consumer):
    """Calibrated on one part of the puzzles, reported on another, and timed, from the columns of Signals."""

    def __init__(self, evaluator: Evaluator):
        super().__init__(evaluator)
        settings, self._other = evaluator.settings, None
        name, data = settings.calibration, evaluator.data
        if name == "auto":
            name = "validation" if "validation" in splits_of(data.directory) else data.split
        if name != data.split:
            self._other = PuzzleData(data.directory, name, data.device)
            if not len(self._other):
                raise ConfigError(f"evaluation.calibration={name}: that split is empty; name another")
        heads = evaluator.heads
        policies = 7 + 2 * (heads.q_halt is not None) + (heads.gate is not None)
        halves = len(evaluator.examples) // (1 if self._other else 2)
        self.cost = f"policies: up to {policies} passes over {max(halves, 1):,} puzzles, each for a policy's seconds"

    _other: PuzzleData | None

    def result(self, seen: Columns) -> dict[str, Any]:
        """What each policy gives by the record, and by the clock against leaving nobody out."""
        evaluator, settings = self.evaluator, self.evaluator.settings
        calibration, tested, source = self._calibration(seen)
        seen = outcomes_of(seen, tested)
        causal = evaluator.puzzle is not None and evaluator.puzzle.causal
        budget = settings.budget if settings.budget != "auto" else "perplexity" if causal else "exact"
        allowance = Allowance(budget, settings.drop, settings.perplexity)
        rows: list[dict[str, Any]] = []
        for policy in policies_for(calibration, evaluator.trained_steps, allowance):
            live = run_with(policy, evaluator, evaluator.examples.cpu().numpy()[tested])
            finite = np.isfinite(policy.threshold)
            rows.append(
                {"name": policy.name, "signal": policy.signal, "threshold": policy.threshold if finite else None}
                | outcome(seen, policy.stops(seen))
                | {"live_exact": float(live.exact.mean()), "live_mean_steps": float(live.steps.mean())}
                | {"seconds": live.seconds}
            )
        for row in rows:
            row["speedup"] = rows[0]["seconds"] / row["seconds"]
        return {
            "policies": {
                "calibrated_on": source,
                "puzzles": len(tested),
                "allowance": asdict(allowance),
                "rows": rows,
                "frontiers": {signal: frontier(seen, signal) for signal in signals_in(seen)},
            }
        }

    def _calibration(self, seen: Columns) -> tuple[Columns, np.ndarray, str]:
        """The columns to calibrate on, the puzzles to report on, and in words where the first are from."""
        own, everyone = self.evaluator.data.split, np.arange(seen["exact"].shape[1])
        if self._other is not None:
            other = replace(self.evaluator, data=self._other, world=World())
            with torch.inference_mode():
                found, _ = other.observe([Accuracy(other), Signals(other)])
            return found, everyone, f"{len(other.examples)} puzzles of the {self._other.split} split"
        if len(everyone) == 1:
            return seen, everyone, f"the one puzzle of the {own} split"
        return outcomes_of(seen, slice(None, None, 2)), everyone[1::2], f"every other puzzle of the {own} split"


@dataclass(frozen=True)
class Exits:
    """What the puzzles left with, in the order in which they were given."""

    exact: np.ndarray  # (N,) bool
    steps: np.ndarray  # (N,) int64
    seconds: float


@dataclass(frozen=True)
class MixedRecord(StepRecord):
    """A step of rows that are at different steps: taken (B,), m of each."""

    taken: Tensor | None = None

    def read(self, state: State) -> Readout:
        """The readout of each row as of its own step: the final one, or the one before `final_from`."""
        model = self.model
        late = model.readout(state)
        if model.final_from <= 1:
            return late
        assert self.taken is not None
        early, final = model.readout(state, model.final_from - 1), self.taken >= model.final_from
        chosen = {
            name: torch.where(final.view(-1, *[1] * (value.ndim - 1)), value, getattr(early, name))
            for name, value in late._asdict().items()
            if value is not None
        }
        return Readout(**chosen)


@torch.inference_mode()
def run_with(policy: Policy, evaluator: Evaluator, examples: np.ndarray) -> Exits:
    """Examples (N,) of the split under a policy, at most T supervision steps each.

    The batch stays full while puzzles wait, then shrinks. One wait for the device a step: who leaves?
    """
    model, data, steps = evaluator.model.eval(), evaluator.data, evaluator.steps
    device, size = data.device, evaluator.settings.batch_size
    waiting = torch.from_numpy(np.ascontiguousarray(examples)).to(device)
    exact = torch.zeros(len(examples), dtype=torch.bool, device=device)
    taken = torch.zeros(len(examples), dtype=torch.int64, device=device)
    place = torch.arange(min(size, len(examples)), device=device)  # (B,) which of the N a row is
    batch = data.take(waiting[place])

    def own(state: State, numbers: Tensor) -> State:
        """The states from which these puzzles begin in the pass."""
        start = evaluator.start(numbers)
        return state if start is None else start(state)

    x, m, entered = model.encode(batch), torch.zeros_like(place), len(place)
    state = own(model.initial_state(x), waiting[place])
    survival: Tensor | None = None
    started = time.perf_counter()
    bar = tqdm(total=len(examples), unit="puzzle", desc=policy.name, disable=not evaluator.progress, dynamic_ncols=True)
    with bar:
        while len(place):
            before, state, m = state, model.step(state, x), m + 1
            record = MixedRecord(model, 0, batch, x, before, state, taken=m)
            survival = survived(survival, record.readout)
            if policy.signal == FIXED:
                signal = m.float()
            else:
                one = (policy.signal,)
                signal = signals(record, evaluator.likelihood, evaluator.halting, survival, one)[policy.signal]
            leaves = (signal > policy.threshold) | (m >= steps)
            rows = leaves.nonzero().flatten()
            if not len(rows):
                continue
            exact[place[rows]] = record.exact[rows]
            taken[place[rows]] = m[rows]
            bar.update(len(rows))
            enter = torch.arange(entered, min(entered + len(rows), len(examples)), device=device)
            entered += len(enter)
            if len(enter):
                fresh, seats = data.take(waiting[enter]), rows[: len(enter)]
                x_fresh = model.encode(fresh)
                x = x.index_copy(0, seats, x_fresh)
                state = _seated(state, own(model.initial_state(x_fresh), waiting[enter]), seats)
                batch = Batch(*(old.index_copy(0, seats, new) for old, new in zip(batch, fresh, strict=True)))
                place, m = place.index_copy(0, seats, enter), m.index_fill(0, seats, 0)
                survival = None if survival is None else survival.index_fill(0, seats, 0)
            if len(enter) < len(rows):
                stay = torch.ones(len(place), dtype=torch.bool, device=device)
                stay[rows[len(enter) :]] = False
                kept = stay.nonzero().flatten()
                x, state = _cut(x, kept), mapped(state, partial(_cut, rows=kept))
                batch, place, m = Batch(*(part[kept] for part in batch)), place[kept], m[kept]
                survival = None if survival is None else survival[kept]
    return Exits(exact.cpu().numpy(), taken.cpu().numpy(), time.perf_counter() - started)


def _seated(state: State, fresh: State, seats: Tensor) -> State:
    """The state with fresh rows in some seats; tensors that were one stay one."""
    moved = {id(z): z.index_copy(0, seats, getattr(fresh, name)) for name, z in parts(state).items()}
    return type(state)(*(moved[id(z)] for z in state))


def _cut(z: Tensor, rows: Tensor) -> Tensor:
    """Some rows of (B, S, D), in the memory order that z has: the sequence may lie first."""
    if z.stride(0) < z.stride(1):
        return z.transpose(0, 1).index_select(1, rows).transpose(0, 1)
    return z.index_select(0, rows)
