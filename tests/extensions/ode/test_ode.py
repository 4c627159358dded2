"""Integrators have the orders that theory gives them; steps of the model are the integrals that its equations say."""

import numpy as np
import pytest
import torch
from evaluators import begun
from test_integrate import PULL, SETTINGS, SHAPE, TOKENS, stepped, strong_order

from reason.extensions.ode.model import OdeConfig, OdeModel, integrate
from reason.models import RecursiveConfig, RecursiveModel
from reason.models.recursion import euler_maruyama


def made(**changes):
    return OdeModel(OdeConfig(**SETTINGS | changes), SHAPE, torch.float64).double()


def with_weights_of(model, **changes):
    twin = made(**changes)
    twin.load_state_dict(model.state_dict())
    return twin.eval()


@pytest.mark.parametrize(("method", "order"), [("euler", 1), ("heun", 2), ("rk4", 4)])
def test_order_of_fixed_steps(method, order):
    """dz/dt = −z² from 1: z(t) = 1/(1 + t)."""
    z = torch.ones(1, dtype=torch.float64)
    sizes = [4, 8, 16, 32]
    errors = [abs(integrate(lambda z: -(z**2), z, 1.0, n, method).item() - 0.5) for n in sizes]
    assert -np.polyfit(np.log(sizes), np.log(errors), 1)[0] == pytest.approx(order, abs=0.2)


def test_strong_order_of_multiplicative_noise():
    """Geometric Brownian motion, dz = (F(z) − z)dt + σF(z) dW."""

    def solution(start, increments, sigma):
        return start * torch.exp(PULL - 1 - (sigma * PULL) ** 2 / 2 + sigma * PULL * increments.sum(0))

    order = strong_order(solution, 1.0, lambda z, dt, zeta: euler_maruyama(z, PULL * z, dt, 1.0, PULL * z * zeta))
    assert order == pytest.approx(0.5, abs=0.15)


@pytest.mark.parametrize("noise", ["additive", "multiplicative"])
def test_a_training_step_is_its_noisy_recursion_in_substeps(noise, monkeypatch):
    """Two substeps of Δt/n = 1/4 in each call, ζ = 1 and σ√(Δt/n) = 0.15; the noise is ζ, or F(z)ζ."""
    for module in ("reason.models.recursion", "reason.extensions.ode.model"):
        monkeypatch.setattr(f"{module}.normal_like", torch.ones_like)
    once = {"h_cycles": 1, "l_cycles": 1, "separate_networks": True}
    model = made(**once, noise=noise, sigma=0.3, dt=0.5, substeps=2).train()
    start, x = begun(model, TOKENS)
    (z_h, z_l), geometry = start, x.geometry
    for _ in range(2):
        f = model.f_l(z_l + z_h + x.x, geometry)
        z_l = 0.75 * z_l + 0.25 * f + 0.15 * (f if noise == "multiplicative" else 1)
    for _ in range(2):
        f = model.f_h(z_h + z_l, geometry)
        z_h = 0.75 * z_h + 0.25 * f + 0.15 * (f if noise == "multiplicative" else 1)
    torch.testing.assert_close(model.step(start, x), (z_h, z_l))


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
    model, core = made(), RecursiveModel(RecursiveConfig(**SETTINGS), SHAPE, torch.float64).double()
    core.load_state_dict(model.state_dict())
    assert torch.equal(stepped(model), stepped(core))
    assert not torch.allclose(stepped(model), stepped(with_weights_of(model, integrator="heun")))


@pytest.mark.parametrize("substeps", [1, 3])
def test_the_averaged_equation_is_its_euler_steps(substeps):
    """CMM eq. 18 and 19: z_L at full speed, z_H at 1/N_L of it, both from the same point, for N_L·Δt a cycle."""
    model = made(equation="averaged", dt=0.5, substeps=substeps, separate_networks=True, l_cycles=3)
    start, x = begun(model, TOKENS)
    (z_h, z_l), geometry = start, x.geometry
    for _ in range(2 * 3 * substeps):
        high, low = model.f_h(z_h + z_l, geometry) - z_h, model.f_l(z_l + z_h + x.x, geometry) - z_l
        z_h, z_l = z_h + 0.5 / substeps * high / 3, z_l + 0.5 / substeps * low
    torch.testing.assert_close(model.step(start, x), (z_h, z_l))
    path = model.path(start, x)  # a state for each cycle
    assert len(path) == 2
    torch.testing.assert_close(path[-1], model.step(start, x))
