"""Integrators have the orders that theory gives them; noise has the law that the SDE gives it."""

import math

import numpy as np
import pytest
import torch
from evaluators import begun

from reason.dynamics.integrate import euler_maruyama, integrate, normal_like
from reason.models import RecursiveConfig, RecursiveModel, Shape

PULL = 0.9  # F(z) = PULL·z: a slow drift, so that the noise term decides the order


def strong_errors(noise, sigma):
    """Mean |error| at time 1 of dz = (F(z) − z)dt + σG dW over 4000 shared Brownian paths, for Δt = 1/8 … 1/64."""
    paths, finest = 4000, 1024
    torch.manual_seed(1)
    increments = torch.randn(finest, paths, dtype=torch.float64) * finest**-0.5  # dW
    start = torch.ones(paths, dtype=torch.float64)
    drift = PULL - 1
    if noise == "multiplicative":  # geometric Brownian motion, σF(z) = σ·PULL·z
        volatility = sigma * PULL
        exact = start * torch.exp(drift - volatility**2 / 2 + volatility * increments.sum(0))
    else:  # Ornstein-Uhlenbeck, its integral summed on the finest grid
        times = (torch.arange(finest, dtype=torch.float64) + 0.5) / finest
        exact = start * math.exp(drift) + sigma * (torch.exp(drift * (1 - times))[:, None] * increments).sum(0)
    steps, errors = [8, 16, 32, 64], []
    for count in steps:
        coarse = increments.view(count, -1, paths).sum(1) * count**0.5  # ζ of each step
        z = start
        for zeta in coarse:
            z = euler_maruyama(z, PULL * z, 1 / count, noise, sigma, zeta)
        errors.append((z - exact).abs().mean().item())
    return [1 / count for count in steps], errors


@pytest.mark.parametrize(("noise", "sigma", "order"), [("additive", 0.5, 1.0), ("multiplicative", 1.0, 0.5)])
def test_strong_order_of_euler_maruyama(noise, sigma, order):
    sizes, errors = strong_errors(noise, sigma)
    assert np.polyfit(np.log(sizes), np.log(errors), 1)[0] == pytest.approx(order, abs=0.15)


@pytest.mark.parametrize(("method", "order"), [("euler", 1), ("heun", 2), ("rk4", 4)])
def test_order_of_fixed_steps(method, order):
    """dz/dt = −z² from 1: z(t) = 1/(1 + t)."""
    z = torch.ones(1, dtype=torch.float64)
    sizes = [4, 8, 16, 32]
    errors = [abs(integrate(lambda z: -(z**2), z, 1.0, n, method).item() - 0.5) for n in sizes]
    assert -np.polyfit(np.log(sizes), np.log(errors), 1)[0] == pytest.approx(order, abs=0.2)


def made(**changes):
    settings = {"hidden_size": 8, "num_heads": 2, "expansion": 1, "puzzle_emb_len": 0, "h_cycles": 2, "l_cycles": 2}
    config = RecursiveConfig(**settings | changes)
    return RecursiveModel(config, Shape(seq_len=4, vocab_size=5), torch.float64).double()


TOKENS = torch.arange(8).view(2, 4) % 5


def stepped(model):
    return model.step(*begun(model, TOKENS)).z_h


def with_weights_of(model, **changes):
    twin = made(**changes)
    twin.load_state_dict(model.state_dict())
    return twin.eval()


@pytest.mark.parametrize("noise", ["additive", "multiplicative"])
def test_a_training_step_is_its_noisy_recursion(noise, monkeypatch):
    """Two substeps of Δt/n = 1/4 in each call, ζ = 1 and σ√(Δt/n) = 0.15; G is 1, or F."""
    monkeypatch.setattr("reason.dynamics.integrate.normal_like", torch.ones_like)
    once = {"h_cycles": 1, "l_cycles": 1, "separate_networks": True}
    model = made(**once, noise=noise, sigma=0.3, dt=0.5, substeps=2).train()
    start, x = begun(model, TOKENS)
    z_h, z_l = start
    geometry = x.geometry
    for _ in range(2):
        f = model.f_l(z_l + z_h + x.x, geometry)
        z_l = 0.75 * z_l + 0.25 * f + 0.15 * (f if noise == "multiplicative" else 1)
    for _ in range(2):
        f = model.f_h(z_h + z_l, geometry)
        z_h = 0.75 * z_h + 0.25 * f + 0.15 * (f if noise == "multiplicative" else 1)
    torch.testing.assert_close(model.step(start, x), (z_h, z_l))


def test_noise_is_in_every_call_of_a_training_step_and_nowhere_else(monkeypatch):
    """N_H·(N_L + 1) = 6 draws a supervision step, those of cycles without gradient too; none in maps and evaluation."""
    draws = []
    monkeypatch.setattr("reason.dynamics.integrate.normal_like", lambda z: (draws.append(z.shape), normal_like(z))[1])
    model = made(noise="additive", sigma=1.0).train()
    assert not torch.equal(stepped(model), stepped(model))
    assert len(draws) == 2 * 6
    for kind in ("f_h", "cycle", "step"):
        g, z = model.map(*begun(model, TOKENS), kind)
        g(z)
    torch.testing.assert_close(stepped(model.eval()), stepped(with_weights_of(model)), rtol=0, atol=0)
    assert len(draws) == 2 * 6


@pytest.mark.parametrize("equation", ["impulse", "averaged"])
def test_integrators_agree_where_steps_are_small(equation):
    """One supervision step as an ODE: Euler nears RK4 at first order, Heun is there."""
    model = made(integrator="rk4", substeps=8, equation=equation, h_cycles=1).eval()
    truth = stepped(model)

    def error(**changes):
        return (stepped(with_weights_of(model, equation=equation, h_cycles=1, **changes)) - truth).abs().max().item()

    fine = error(substeps=32)
    assert error(substeps=8) / fine == pytest.approx(4, rel=0.35)
    assert error(integrator="heun", substeps=8) < fine


def test_one_euler_step_of_the_impulse_equation_is_the_trained_map():
    model = made()
    torch.testing.assert_close(stepped(model), stepped(with_weights_of(model, integrator="euler", substeps=1)))
    moved = stepped(with_weights_of(model, integrator="heun"))
    assert not torch.allclose(stepped(model), moved)
