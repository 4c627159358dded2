"""The exit gate's distribution, its two stages and its use, against sums written out."""

from dataclasses import replace

import numpy as np
import pytest
import reference
import torch
from evaluators import random_batch
from hypothesis import given, settings
from hypothesis import strategies as st

from reason.extensions.looped import exit as stages
from reason.extensions.looped.exit import exit_entropy, exit_gate_loss, exit_loss, exit_step, log_exit_distribution
from reason.extensions.looped.model import LoopedConfig
from reason.models import build_model
from reason.models.base import IGNORE, Batch, Readout, Shape
from reason.rollout import SupervisionStep

T, B, S, V = 4, 3, 5, 6
LABELS = torch.tensor([[1, 2, IGNORE, 3, 0], [IGNORE, IGNORE, 4, 1, 2], [0, 0, 1, 5, 5]])


def unrolled(active=None):
    logits, gates = torch.randn(T, B, S, V, dtype=torch.float64), torch.randn(T, B, S, dtype=torch.float64)
    readouts = tuple(Readout(2 * a, gate=b) for a, b in zip(logits, gates, strict=True))
    batch = Batch(LABELS, LABELS, torch.zeros(B, dtype=torch.long))
    active = torch.ones(B, dtype=torch.bool) if active is None else active
    return SupervisionStep(None, batch, None, (), readouts, active, 1 * active, torch.ones(B, dtype=torch.bool))


@pytest.fixture(autouse=True)
def gentle(monkeypatch):
    """A target that differs from 0 and 1 for the random losses of these tests."""
    monkeypatch.setattr(stages, "SLOPE", 3.0)
    monkeypatch.setattr(stages, "THRESHOLD", 0.1)


def of_cells(seen, rows, likelihood):
    """Row and all three losses of every labelled cell of some rows, written out."""
    found = []
    for row, cell in (LABELS != IGNORE).nonzero().tolist():
        if row in rows:
            said = [out.logits[row, cell].numpy() for out in seen.readouts]
            losses = np.array([reference.cell_loss(one, int(LABELS[row, cell]), likelihood) for one in said])
            gates = np.array([out.gate[row, cell].item() for out in seen.readouts])
            found.append((row, reference.exit_losses(gates, losses, stages.SLOPE, stages.THRESHOLD)))
    return found


def all_three(seen, likelihood, mean):
    found = [exit_loss(seen, likelihood, mean), exit_entropy(seen, mean), exit_gate_loss(seen, likelihood, mean)]
    assert all(value.dtype == torch.float32 for value in found)
    return [value.item() for value in found]


@pytest.mark.parametrize("likelihood", ["softmax", "stablemax"])
def test_both_stages_equal_the_sums(likelihood):
    """row: the mean over each row's cells, then rows; token: cells of active rows over the labelled cells of all."""
    seen = unrolled()
    each = of_cells(seen, range(B), likelihood)
    rows = [np.mean([losses for at, losses in each if at == row], axis=0) for row in range(B)]
    assert all_three(seen, likelihood, "row") == pytest.approx(np.mean(rows, axis=0), rel=1e-6)
    some = replace(seen, active=torch.tensor([True, True, False]))
    each = [losses for _, losses in of_cells(some, range(2), likelihood)]
    assert all_three(some, likelihood, "token") == pytest.approx(np.sum(each, axis=0) / (4 + 3 + 5), rel=1e-6)
    assert all_three(some, likelihood, "row") == pytest.approx(np.sum(rows[:2], axis=0) / B, rel=1e-6)


@settings(max_examples=60)
@given(st.lists(st.floats(-60, 60), min_size=1, max_size=9), st.floats(0, 1))
def test_the_distribution_sums_to_one(gates, quantile):
    stacked = torch.tensor(gates, dtype=torch.float64)
    p = log_exit_distribution(stacked).exp()
    assert p.sum().item() == pytest.approx(1, abs=1e-12)
    assert p.tolist() == pytest.approx(reference.exit_distribution(gates), abs=1e-12)
    distance = min(abs(c - quantile) for c in [*p.cumsum(0).tolist(), 1.0])
    if distance > 1e-9:  # else rounding decides
        assert exit_step(stacked, quantile).item() == reference.exit_step(gates, quantile)


def test_gradients_and_what_stage_two_detaches():
    gates = torch.randn(T, 2, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda g: log_exit_distribution(g).exp(), gates)
    seen = unrolled()
    held = [out.gate.requires_grad_() for out in seen.readouts]
    (exit_loss(seen, "softmax", "row") + exit_entropy(seen, "row")).backward()
    assert held[-1].grad.abs().sum() == 0  # at T one leaves in any case
    assert all(g.grad[LABELS != IGNORE].abs().min() > 0 for g in held[:-1])
    assert all(g.grad[LABELS == IGNORE].abs().max() == 0 for g in held)
    seen = unrolled()
    logits = [out.logits.requires_grad_() for out in seen.readouts]
    gates = [out.gate.requires_grad_() for out in seen.readouts]
    exit_gate_loss(seen, "softmax", "row").backward()
    assert all(each.grad is None for each in logits)
    taught = [g.grad.abs().sum() > 0 for g in gates]
    assert taught == [False, True, True, False]


def test_the_gate_reads_what_the_head_reads():
    config = LoopedConfig(hidden_size=8, num_heads=2, gate="position")
    model = build_model(config, Shape(seq_len=S, vocab_size=V)).eval()
    x = model.encode(random_batch(B, S, V))
    state = model.step(model.initial_state(x), x)
    assert (model.readout(state, x).gate == 0).all()
    torch.nn.init.normal_(model.gate.out.weight)
    expected = (model.final_norm(state.z) @ model.gate.out.weight.T).squeeze(-1)
    torch.testing.assert_close(model.readout(state, x).gate, expected)
