"""Noise has the law and the strong order that the SDE gives it, and is in the calls of training steps only."""

import math

import numpy as np
import pytest
import torch
from evaluators import begun

from reason.models import RecursiveConfig, RecursiveModel, Shape
from reason.models.recursion import euler_maruyama
from reason.models.states import normal_like

PULL = 0.9  # F(z) = PULL·z: a slow drift, so that the noise term decides the order


def strong_order(solution, sigma, step):
    """Order in Δt = 1/8 … 1/64 of the mean |error| at time 1, over 4000 shared Brownian paths; step(z, Δt, ζ)."""
    paths, finest = 4000, 1024
    torch.manual_seed(1)
    increments = torch.randn(finest, paths, dtype=torch.float64) * finest**-0.5  # dW
    start = torch.ones(paths, dtype=torch.float64)
    steps, errors = [8, 16, 32, 64], []
    for count in steps:
        coarse = increments.view(count, -1, paths).sum(1) * count**0.5  # ζ of each step
        z = start
        for zeta in coarse:
            z = step(z, 1 / count, zeta)
        errors.append((z - solution(start, increments, sigma)).abs().mean().item())
    return np.polyfit(np.log([1 / count for count in steps]), np.log(errors), 1)[0]


def ornstein_uhlenbeck(start, increments, sigma):
    """The solution of dz = (F(z) − z)dt + σ dW at time 1, its integral summed on the finest grid."""
    times = (torch.arange(len(increments), dtype=torch.float64) + 0.5) / len(increments)
    drift = PULL - 1
    return start * math.exp(drift) + sigma * (torch.exp(drift * (1 - times))[:, None] * increments).sum(0)


def test_strong_order_of_euler_maruyama():
    order = strong_order(ornstein_uhlenbeck, 0.5, lambda z, dt, zeta: euler_maruyama(z, PULL * z, dt, 0.5, zeta))
    assert order == pytest.approx(1.0, abs=0.15)


SETTINGS = {"hidden_size": 8, "num_heads": 2, "expansion": 1, "puzzle_emb_len": 0, "h_cycles": 2, "l_cycles": 2}
SHAPE, TOKENS = Shape(seq_len=4, vocab_size=5), torch.arange(8).view(2, 4) % 5


def made(**changes):
    return RecursiveModel(RecursiveConfig(**SETTINGS | changes), SHAPE, torch.float64).double()


def stepped(model):
    return model.step(*begun(model, TOKENS)).z_h


def test_noise_is_in_every_call_of_a_training_step_and_nowhere_else(monkeypatch):
    """N_H·(N_L + 1) = 6 draws a supervision step, those of cycles without gradient too; none in maps and evaluation."""
    draws = []
    monkeypatch.setattr("reason.models.recursion.normal_like", lambda z: (draws.append(z.shape), normal_like(z))[1])
    model = made(noise="additive", sigma=1.0).train()
    assert not torch.equal(stepped(model), stepped(model))
    assert len(draws) == 2 * 6
    for kind in ("f_h", "cycle", "step"):
        g, z = model.map(*begun(model, TOKENS), kind)
        g(z)
    plain = made()
    plain.load_state_dict(model.state_dict())
    torch.testing.assert_close(stepped(model.eval()), stepped(plain.eval()), rtol=0, atol=0)
    assert len(draws) == 2 * 6
