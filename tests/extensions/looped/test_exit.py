"""The exit gate's distribution, its two stages and its use, against sums written out; the norm penalty."""

import math
from dataclasses import replace

import numpy as np
import pytest
import reference
import torch
from evaluators import random_batch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from reason.context import Context
from reason.extensions.looped import exit as stages
from reason.extensions.looped.exit import exit_entropy, exit_gate_loss, exit_loss, exit_step, log_exit_distribution
from reason.extensions.looped.model import LoopedConfig, LoopedState
from reason.extensions.looped.scale import norm_penalty
from reason.models import build_model
from reason.models.base import IGNORE, Batch, Readout, Shape
from reason.models.recursive import RecursiveState
from reason.rollout import Unroll

T, B, S, V = 4, 3, 5, 6
LABELS = torch.tensor([[1, 2, IGNORE, 3, 0], [IGNORE, IGNORE, 4, 1, 2], [0, 0, 1, 5, 5]])


class Early:
    """A model of which only the readout of the state before the first loop is asked."""

    def __init__(self, logits: Tensor, gates: Tensor):
        self.said = Readout(logits, gate=gates)

    def readout(self, state: object, context: Context, step: int | None = None) -> Readout:
        assert step == 1, "L_0 is read as L_1 is"
        return self.said


def unrolled(kind: str, loops: int = T, m: int = 1, last: bool = True, active: Tensor | None = None) -> Unroll:
    cells = S if kind == "position" else 1
    logits, gates = (torch.randn(loops + 1, B, *size, dtype=torch.float64) for size in ((S, V), (cells,)))
    readouts = tuple(Readout(2 * a, gate=b) for a, b in zip(logits[1:], gates[1:], strict=True))
    batch = Batch(LABELS, LABELS, torch.zeros(B, dtype=torch.long))
    return Unroll(
        Early(2 * logits[0], gates[0]), batch, None, (), readouts,  # type: ignore[arg-type]
        torch.ones(B, dtype=torch.bool) if active is None else active,
        torch.full((B,), last), steps=torch.full((B,), m, dtype=torch.int32),
    )  # fmt: skip


@pytest.fixture(autouse=True)
def gentle(monkeypatch: pytest.MonkeyPatch) -> None:
    """A target that differs from 0 and 1 for the random losses of these tests."""
    monkeypatch.setattr(stages, "SLOPE", 3.0)
    monkeypatch.setattr(stages, "THRESHOLD", 0.1)


def loss_of(out: Readout, row: int, cell: int, likelihood: str = "softmax") -> float:
    return reference.cell_loss(out.logits[row, cell].numpy(), int(LABELS[row, cell]), likelihood)


def by_hand(seen: Unroll, likelihood: str) -> np.ndarray:
    """Means over rows of what each labelled cell, or each row, gives."""
    rows = []
    for row in range(B):
        cells = [c for c in range(S) if LABELS[row, c] != IGNORE]
        losses = np.array([[loss_of(out, row, c, likelihood) for c in cells] for out in seen.readouts])
        gates = np.array([out.gate[row].numpy() for out in seen.readouts])
        pairs = zip(gates[:, cells].T, losses.T, strict=True) if gates.shape[1] > 1 else [(gates[:, 0], losses.mean(1))]
        each = [reference.exit_losses(g, loss, stages.SLOPE, stages.THRESHOLD) for g, loss in pairs]
        rows.append(np.mean(each, axis=0))
    return np.mean(rows, axis=0)


def all_three(seen: Unroll, likelihood: str, mean: str) -> list[Tensor]:
    gate = exit_gate_loss(seen, likelihood, mean)
    return [exit_loss(seen, likelihood, mean), exit_entropy(seen, mean), gate]


@pytest.mark.parametrize("kind", ["position", "puzzle"])
@pytest.mark.parametrize("likelihood", ["softmax", "stablemax"])
def test_both_stages_equal_the_sums(kind: str, likelihood: str) -> None:
    seen = unrolled(kind)
    found = all_three(seen, likelihood, "row")
    assert [value.item() for value in found] == pytest.approx(by_hand(seen, likelihood), rel=1e-6)
    assert all(value.dtype == torch.float32 for value in found)


def test_stage_two_of_a_recursive_model_compares_with_the_state_before() -> None:
    """One loop a backward pass: at the second supervision step L_1 is held against the loss before it."""
    seen = unrolled("puzzle", loops=1, m=2, last=False)
    (now,), before = seen.readouts, seen.model.said
    rows, gains = [], []
    for row in range(B):
        cells = [c for c in range(S) if LABELS[row, c] != IGNORE]
        early, late = (np.mean([loss_of(out, row, c) for c in cells]) for out in (before, now))
        gains.append(max(0.0, early - late))
        rows.append(reference.bce(-now.gate[row].item(), 1 / (1 + math.exp(-3.0 * (gains[-1] - 0.1)))))
    assert max(gains) > 0.1
    assert exit_gate_loss(seen, "softmax", "row").item() == pytest.approx(np.mean(rows), rel=1e-6)


def test_a_mean_over_tokens_weighs_every_cell_alike() -> None:
    """Of a gate per position: the cells of the active rows over the labelled cells of all of them."""
    active = torch.tensor([True, True, False])
    seen = unrolled("position", active=active)
    cells = [(row, c) for row in range(2) for c in range(S) if LABELS[row, c] != IGNORE]
    each = []
    for row, c in cells:
        losses = [loss_of(out, row, c) for out in seen.readouts]
        gates = np.array([out.gate[row, c].item() for out in seen.readouts])
        each.append(reference.exit_losses(gates, np.array(losses), stages.SLOPE, stages.THRESHOLD))
    expected = np.sum(each, axis=0) / (4 + 3 + 5)
    assert [value.item() for value in all_three(seen, "softmax", "token")] == pytest.approx(expected, rel=1e-6)


def test_inactive_rows_add_nothing() -> None:
    active = torch.tensor([True, False, True])
    seen = unrolled("position", active=active)
    alone = [replace(seen, active=torch.arange(B) == row) for row in (0, 2)]
    expected = sum(exit_loss(each, "softmax", "row").item() for each in alone)
    assert exit_loss(seen, "softmax", "row").item() == pytest.approx(expected, rel=1e-6)


@settings(max_examples=60)
@given(st.lists(st.floats(-60, 60), min_size=1, max_size=9), st.floats(0, 1))
def test_the_distribution_sums_to_one(gates: list[float], quantile: float) -> None:
    stacked = torch.tensor(gates, dtype=torch.float64)
    p = log_exit_distribution(stacked).exp()
    assert p.sum().item() == pytest.approx(1, abs=1e-12)
    assert p.tolist() == pytest.approx(reference.exit_distribution(gates), abs=1e-12)
    cdf = stages.exit_cdf(stacked)
    torch.testing.assert_close(cdf[:-1], p.cumsum(0)[:-1])
    distance = min(abs(c - quantile) for c in [*cdf.tolist(), 1.0])
    if distance > 1e-9:  # else rounding decides
        assert exit_step(stacked, quantile).item() == reference.exit_step(gates, quantile)


def test_gradients() -> None:
    gates = torch.randn(T, 2, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda g: log_exit_distribution(g).exp(), gates)
    seen = unrolled("position")
    held = [out.gate.requires_grad_() for out in seen.readouts]
    (exit_loss(seen, "softmax", "row") + exit_entropy(seen, "row")).backward()
    assert held[-1].grad.abs().sum() == 0  # at T one leaves in any case
    assert all(g.grad[LABELS != IGNORE].abs().min() > 0 for g in held[:-1])
    assert all(g.grad[LABELS == IGNORE].abs().max() == 0 for g in held)


def test_stage_two_detaches_what_it_compares() -> None:
    seen = unrolled("position")
    logits = [out.logits.requires_grad_() for out in seen.readouts]
    gates = [out.gate.requires_grad_() for out in seen.readouts]
    exit_gate_loss(seen, "softmax", "row").backward()
    assert all(each.grad is None for each in logits)
    taught = [g.grad.abs().sum() > 0 for g in gates]
    assert taught == [False, True, True, False]


@pytest.mark.parametrize(("m", "last", "loops", "taught"), [
    (2, False, 4, [1, 1, 1, 1]),  # in the midst of several supervision steps
    (1, False, 1, [0]),  # a recursive model's steps: nothing before the first,
    (2, False, 1, [1]),  # the state before it from the second on,
    (3, True, 1, [0]),  # and the last is forced
])  # fmt: skip
def test_which_loops_are_taught(m: int, last: bool, loops: int, taught: list[int]) -> None:
    seen = unrolled("puzzle", loops, m, last)
    gates = [out.gate.requires_grad_() for out in seen.readouts]
    exit_gate_loss(seen, "softmax", "row").backward()
    assert [int(g.grad.abs().min() > 0) for g in gates] == taught


def test_the_gate_learns_to_stay_where_a_loop_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    """w → 1 where the loss falls by more than γ, → 0 where it does not: the BCE's minimum is there."""
    monkeypatch.setattr(stages, "SLOPE", 1e4)
    monkeypatch.setattr(stages, "THRESHOLD", 0.005)
    seen = unrolled("puzzle")
    losses = [reference.lm_loss(out.logits[:1].numpy(), LABELS[:1].numpy(), "softmax") for out in seen.readouts]
    gains = [losses[t - 1] - losses[t] > 0.005 for t in range(1, T - 1)]
    right = [torch.full((B, 1), -20.0 if gain else 20.0, dtype=torch.float64) for gain in gains]
    readouts = [out._replace(gate=g) for out, g in zip(seen.readouts[1:-1], right, strict=True)]
    only = torch.arange(B) == 0
    taught = replace(seen, readouts=(seen.readouts[0], *readouts, seen.readouts[-1]), active=only)
    assert exit_gate_loss(taught, "softmax", "row").item() < 1e-6


@pytest.mark.parametrize("kind", ["position", "puzzle"])
def test_gates(kind: str) -> None:
    """At every cell, or one for the mean over the cells; λ = ½ before training."""
    config = LoopedConfig(hidden_size=8, num_heads=2, causal=False, gate=kind)
    model = build_model(config, Shape(seq_len=S, vocab_size=V)).eval()
    x = model.encode(random_batch(B, S, V))
    state = model.step(model.initial_state(x), x)
    assert (model.readout(state, x).gate == 0).all()
    torch.nn.init.normal_(model.gate.out.weight)
    gate = model.readout(state, x).gate
    each = (model.final_norm(state.z) @ model.gate.out.weight.T).squeeze(-1)
    torch.testing.assert_close(gate, each if kind == "position" else each.mean(1, keepdim=True))


def test_norm_penalty_is_the_mean_square() -> None:
    states = tuple(LoopedState(torch.randn(B, S, 7)) for _ in range(T))
    active = torch.tensor([True, True, False])
    seen = Unroll(None, None, None, states, (), active, active)  # type: ignore[arg-type]
    sizes = [[np.mean([float((z[0][row, c] ** 2).mean()) for c in range(S)]) for row in range(B)] for z in states]
    expected = np.mean([sum(row[:2]) / B for row in sizes])
    assert norm_penalty(seen).item() == pytest.approx(expected, rel=1e-5)
    pair = RecursiveState(torch.ones(B, S, 7), torch.full((B, S, 7), 3.0))
    assert norm_penalty(replace(seen, states=(pair,))).item() == pytest.approx((1 + 9) / 2 * 2 / B)
    z = torch.randn(B, S, 2, dtype=torch.float64, requires_grad=True)
    of_z = lambda z: norm_penalty(replace(seen, states=(LoopedState(z),))).double()  # noqa: E731
    assert torch.autograd.gradcheck(of_z, z, eps=1e-2, atol=1e-3)
