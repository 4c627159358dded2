"""A stopping policy at work: a finished row leaves the batch, and the next puzzle takes its place."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from reason.data import PuzzleData
from reason.evaluation.policies import FIXED, Policy
from reason.evaluation.probes import mapped, parts
from reason.evaluation.signals import signals, survived
from reason.losses.halting import correct_cells
from reason.losses.lm import Likelihood
from reason.models.base import Readout, Reasoner, State
from reason.rollout import Halting


@dataclass(frozen=True)
class Left:
    """What the puzzles left with, in the order in which they were given."""

    exact: np.ndarray  # (N,) bool
    steps: np.ndarray  # (N,) int64
    seconds: float


@torch.inference_mode()
def run_with(
    policy: Policy,
    model: Reasoner,
    data: PuzzleData,
    examples: np.ndarray,
    steps: int,
    batch_size: int,
    *,
    likelihood: Likelihood = "softmax",
    halting: Halting = "bce",
    progress: bool = True,
) -> Left:
    """Examples (N,) of the split under a policy, at most `steps` supervision steps each.

    The batch stays full while puzzles wait, then shrinks. One wait for the device a step: who leaves?
    """
    model.eval()
    device = data.device
    waiting = torch.from_numpy(np.ascontiguousarray(examples)).to(device)
    exact = torch.zeros(len(examples), dtype=torch.bool, device=device)
    taken = torch.zeros(len(examples), dtype=torch.int64, device=device)
    place = torch.arange(min(batch_size, len(examples)), device=device)  # (B,) which of the N a row is
    batch = data.take(waiting[place])
    x, labels, m, entered = model.encode(batch), batch.labels, torch.zeros_like(place), len(place)
    state = model.initial_state(x)
    survival: Tensor | None = None
    started = time.perf_counter()
    with tqdm(total=len(examples), unit="puzzle", desc=policy.name, disable=not progress, dynamic_ncols=True) as bar:
        while len(place):
            before, state = state, model.step(state, x)
            m = m + 1
            readout = _read(model, state, m)
            survival = survived(survival, readout)
            if policy.signal == FIXED:
                signal = m.double()
            else:
                signal = signals(before, state, readout, labels, likelihood, halting, survival)[policy.signal]
            leaves = (signal > policy.threshold) | (m >= steps)
            rows = leaves.nonzero().flatten()
            if not len(rows):
                continue
            exact[place[rows]] = correct_cells(readout.logits[rows], labels[rows])[1]
            taken[place[rows]] = m[rows]
            bar.update(len(rows))
            enter = torch.arange(entered, min(entered + len(rows), len(examples)), device=device)
            entered += len(enter)
            if len(enter):
                fresh, seats = data.take(waiting[enter]), rows[: len(enter)]
                x_fresh = model.encode(fresh)
                x = x.index_copy(0, seats, x_fresh)
                state = _seated(state, model.initial_state(x_fresh), seats)
                labels = labels.index_copy(0, seats, fresh.labels)
                place, m = place.index_copy(0, seats, enter), m.index_fill(0, seats, 0)
                survival = None if survival is None else survival.index_fill(0, seats, 0)
            if len(enter) < len(rows):
                stay = torch.ones(len(place), dtype=torch.bool, device=device)
                stay[rows[len(enter) :]] = False
                kept = stay.nonzero().flatten()
                x, state = _cut(x, kept), mapped(state, partial(_cut, rows=kept))
                labels, place, m = labels[kept], place[kept], m[kept]
                survival = None if survival is None else survival[kept]
    return Left(exact.cpu().numpy(), taken.cpu().numpy(), time.perf_counter() - started)


def _read(model: Reasoner, state: State, m: Tensor) -> Readout:
    """The readout of rows that have taken m (B,) steps: final ones, and those before `final_from`, read differently."""
    late = model.readout(state)
    if model.final_from <= 1:
        return late
    early, final = model.readout(state, model.final_from - 1), m >= model.final_from
    chosen = {
        name: torch.where(final.view(-1, *[1] * (value.ndim - 1)), value, getattr(early, name))
        for name, value in late._asdict().items()
        if value is not None
    }
    return Readout(**chosen)


def _seated(state: State, fresh: State, seats: Tensor) -> State:
    """The state with fresh rows in some seats; tensors that were one stay one."""
    moved = {id(z): z.index_copy(0, seats, getattr(fresh, name)) for name, z in parts(state).items()}
    return type(state)(*(moved[id(z)] for z in state))


def _cut(z: Tensor, rows: Tensor) -> Tensor:
    """Some rows of (B, S, D), in the memory order that z has: the sequence may lie first."""
    if z.stride(0) < z.stride(1):
        return z.transpose(0, 1).index_select(1, rows).transpose(0, 1)
    return z.index_select(0, rows)
