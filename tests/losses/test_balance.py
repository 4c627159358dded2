"""AlgGradNorm on toy problems with known norms, its equations, and what it must survive."""

import math
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
import reference
import torch
from conftest import pairs, trainer_of
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from reason.config.overrides import override
from reason.config.schema import Config
from reason.losses import loss_config
from reason.losses.balance import AlgGradNorm, BalanceConfig, is_measured
from reason.settings.schedules import ScheduleConfig
from reason.training.log import read_metrics
from reason.training.optim import unscaled_gradient

NAMES = ["lm", "q_halt", "equil_z", "rep_z"]
THREE = loss_config()(weights={"lm": 1, "q_halt": 0.5, "equil_z": 1, "rep_z": 1e3})
EIGHT = pairs(
    "loss.weights.equil_x=1 loss.weights.equil_z=1 loss.weights.rh_unstable_x=10 loss.weights.rh_stable_z=1e4 "
    "loss.weights.rep_x=1e3 loss.weights.rep_z=1e3 balance.kind=alg-grad-norm model.noise=additive training.steps=4 "
    "training.log_every=1 optimizer.freeze_embedding_after=0.75 rollout.grad_steps=2 rollout.accum_steps=2 "
    "rollout.carry=same-batch"
)


def balancer(loss=THREE, **settings):
    return AlgGradNorm(Config(loss=loss, balance=BalanceConfig(kind="alg-grad-norm", **settings)), torch.device("cpu"))


class Toy:
    """L_n = s_n·(a_n·w) + b_n: gradients of known norm s_n, values that can be set apart."""

    def __init__(self, slopes):
        self.w = nn.Parameter(torch.ones(len(slopes)))
        self.slopes = slopes

    def terms(self, losses=(1.0,) * 4):
        parts = zip(NAMES, self.slopes, self.w - self.w.detach(), losses, strict=True)
        return {name: slope * zero + loss for name, slope, zero, loss in parts}

    def gradient(self, loss):
        return unscaled_gradient(loss, [self.w])


@pytest.mark.parametrize(("settings", "slopes", "later", "shares", "rel"), [
    ({"alpha": 0}, [1e-3, 5.0, 0.2, 300.0], [1.0] * 4, [1, 1, 1], 1e-3),
    ({"alpha": 0, "targets": {"lm": 10}}, [1.0, 5.0, 0.2, 30.0], [1.0] * 4, [0.1] * 3, 1e-3),
    ({"alpha": 1}, [1.0] * 4, [1.0, 0.5, 0.25, 0.25], [0.5, 0.25, 0.25], 1e-2),
], ids=["equal norms", "a target of ten", "slow terms get more"])  # fmt: skip
def test_norms_settle(settings, slopes, later, shares, rel):
    """Under α = 1 the term that fell least has the largest r, and in the end the largest G."""
    toy, found = Toy(slopes), balancer(**settings)
    for step in range(300):
        found.update(step, toy.terms(later if step else [1.0] * 4), toy.gradient)
    lm, *others = (found.metrics()[f"norm/{name}"] for name in NAMES)
    assert [other / lm for other in others] == pytest.approx(shares, rel=rel)
    assert found.weight.sum().item() == pytest.approx(4, rel=1e-4)


@settings(max_examples=30)
@given(
    slopes=st.lists(st.floats(1e-3, 1e3), min_size=4, max_size=4),
    losses=st.lists(st.lists(st.floats(1e-3, 1e2), min_size=4, max_size=4), min_size=2, max_size=5),
    alpha=st.sampled_from([0.0, 0.5, 1.0, 1.5]),
    rho=st.sampled_from([0.0, 0.9]),
)
def test_updates_equal_the_papers_equations(slopes, losses, alpha, rho):
    toy, found = Toy(slopes), balancer(alpha=alpha, targets={"lm": 2})
    found.RHO = rho
    expected = [1.0] * 4
    for step, values in enumerate(losses):
        found.update(step, toy.terms(values), toy.gradient)
        expected = reference.alg_grad_norm(expected, values, slopes, losses[0], [2, 1, 1, 1], alpha, rho)
        np.testing.assert_allclose(found.weight.numpy(), expected, rtol=2e-3)


def test_inactive_terms_keep_their_weight_and_leave_the_means():
    """A satisfied ReLU term (loss and gradient 0), a term without gradient, one that is not evaluated."""
    found = balancer(alpha=0)
    found.RHO = 0
    before = found.weight.clone()
    toy = Toy([2.0, 0.0, 4.0, 1.0])
    terms = toy.terms([1.0, 1.0, 1.0, 0.0])
    terms["q_halt"] = torch.tensor(1.0)  # nothing to differentiate
    del terms["equil_z"]
    found.update(0, terms, toy.gradient)
    assert torch.equal(found.weight[1:], before[1:])
    assert found.weight[0] == 1  # alone: N = 1
    assert (found.reference == 0).tolist() == [False, True, True, True]
    found.update(1, toy.terms([1.0, 1.0, 5.0, 1.0]), toy.gradient)
    assert found.reference[2:].tolist() == [5, 1]  # L(0) is set when a term first becomes active
    norms = found.metrics()
    assert norms["norm/q_halt"] == 0
    found.update(2, toy.terms([1.0, 1.0, 5.0, 1.0]), toy.gradient)
    assert found.metrics()["norm/lm"] == pytest.approx(found.metrics()["norm/rep_z"], rel=1e-4)
    assert torch.isfinite(found.weight).all()


@pytest.mark.parametrize(
    ("every", "blend", "course"),
    [(2, 0.25, ((0, 8), (1, 8), (2, 7))), (4, AlgGradNorm.RESET_BLEND, ((0, 8), (3, 8), (5, 6), (6, 6), (9, 5)))],
    ids=["softly", "at the next update"],
)
def test_the_reference_is_reset(every, blend, course):
    """λ is not moved at every step: the reset that fell due between two updates is made at the second, once."""
    toy, found = Toy([1.0] * 4), balancer()
    found.RESET_EVERY, found.RESET_BLEND = every, blend
    for step, expected in course:
        found.update(step, toy.terms([8.0 if step == 0 else 4.0] * 4), toy.gradient)
        assert found.reference.tolist() == [expected] * 4, step


@given(window=st.integers(1, 64), supervision_steps=st.integers(1, 24))
def test_every_m_is_measured_equally_often(window, supervision_steps):
    """One step of each window; over lcm(window, N_super) windows each m = 1 … N_super as often as any other."""
    windows = math.lcm(window, supervision_steps)
    chosen = [index for index in range(windows * window) if is_measured(index, window, supervision_steps)]
    assert [index // window for index in chosen] == list(range(windows))
    seen = Counter(index % supervision_steps + 1 for index in chosen)
    assert seen == dict.fromkeys(range(1, supervision_steps + 1), windows // supervision_steps)


def test_a_schedule_acts_on_the_target():
    late = ScheduleConfig(points=((0, 0), (0.05, 0.5)))
    found = balancer(THREE.model_copy(update={"schedules": {"rep_z": late}}), alpha=0)
    toy = Toy([1.0, 2.0, 3.0, 4.0])
    assert tuple(found.loss.weights_at(0, found.steps)) == ("lm", "q_halt", "equil_z")
    assert tuple(found.loss.weights_at(50, found.steps)) == tuple(NAMES)
    for step in range(50, 350):
        found.update(step, toy.terms(), toy.gradient)
    metrics = found.metrics()
    assert metrics["norm/rep_z"] == pytest.approx(0.5 * metrics["norm/lm"], rel=1e-3)


def test_loss_scaling_changes_no_gradient_and_saves_small_ones():
    """A gradient of 1e-9 vanishes in fp16 on its way, unless the loss is scaled; the result is unscaled."""
    w = nn.Parameter(torch.full((4,), 1.0))

    def loss():
        return ((w.half() * 1.0).float() * 1e-9).sum()

    assert unscaled_gradient(loss(), [w])[0].abs().sum() == 0
    scaled = unscaled_gradient(loss(), [w], scale=2.0**16)[0]
    torch.testing.assert_close(scaled, torch.full((4,), 1e-9), rtol=2e-2, atol=0)


def test_one_step_in_every_window_is_measured(tiny, tmp_path):
    """A window is `balance.every` optimizer steps; each has two backward passes here."""
    trainer, plans = trainer_of(override(tiny, EIGHT | {"balance.every": "3"}), tmp_path / "run"), []
    for _ in range(6):
        plans += trainer.step_plans()
        trainer.index += 2
    assert sum(plan.measure_gradients for plan in plans) == 2


def test_a_training_with_all_eight_terms_and_a_frozen_embedding(tiny, tmp_path):
    """After three quarters of the four steps rep x has no gradient, keeps λ, and training goes on."""
    trainer = trainer_of(override(tiny, EIGHT), tmp_path / "run")
    embeddings = []
    step = trainer.run_step
    trainer.run_step = lambda: (embeddings.append(trainer.model.tokens.weight.detach().clone()), step())[1]
    trainer.train()
    embeddings.append(trainer.model.tokens.weight.detach().clone())
    moved = [not torch.equal(a, b) for a, b in pairwise(embeddings)]
    assert moved == [True] * 3 + [False]
    lines = read_metrics(tmp_path / "run")
    assert lines[3]["norm/rep_x"] == 0 < lines[2]["norm/rep_x"]
    assert lines[3]["weight/rep_x"] == lines[2]["weight/rep_x"]
    assert lines[3]["weight/lm"] != lines[2]["weight/lm"]
    assert all(np.isfinite(value) for line in lines for value in line.values() if value is not None)
