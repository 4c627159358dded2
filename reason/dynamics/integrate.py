"""Integrators of dz/dt = F(z) − z and dz = (F(z) − z)dt + σ G dW (CMM eq. 20, 47; docs/math.md §2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from reason.errors import ConfigError
from reason.nn.draws import normal_like
from reason.nn.dtypes import at_least_float32

VectorField = Callable[[Tensor], Tensor]  # z ↦ dz/dt, any shape
Noise = Literal["none", "additive", "multiplicative"]
Integrator = Literal["euler", "heun", "rk4", "adaptive"]


def euler_maruyama(z: Tensor, f: Tensor, dt: float, noise: Noise, sigma: float, zeta: Tensor | None = None) -> Tensor:
    """z + Δt(f − z) + √Δt·σ·G⊙ζ with f = F(z): one step; shapes as z.

    G is 1 (additive, CMM eq. 48) or f (multiplicative, eq. 49); both equations are this one at Δt = 1. ζ ~ N(0, I)
    comes from the default generator unless given. Strong order 1 (additive) and ½ (multiplicative).
    """
    moved = f if dt == 1.0 else z + dt * (f - z)
    if noise == "none":
        return moved
    kick = normal_like(f) if zeta is None else zeta
    return moved + (sigma * dt**0.5) * (kick if noise == "additive" else f * kick)


def integrate(
    velocity: VectorField, z: Tensor, time: float, steps: int, method: Integrator, tolerance: float
) -> Tensor:
    """z after `time` under dz/dt = velocity(z), in `steps` equal steps; shapes as z.

    `adaptive` is torchdiffeq's Dormand-Prince 5(4) with rtol = atol = `tolerance`, its error measured over the whole
    batch; it chooses its own steps.

    Raises:
        ConfigError: `adaptive` without torchdiffeq.
    """
    if method == "adaptive":
        return _adaptive(velocity, z, time, tolerance)
    for _ in range(steps):
        z = z + _INCREMENTS[method](velocity, z, time / steps)
    return z


def _euler(velocity: VectorField, z: Tensor, dt: float) -> Tensor:
    return dt * velocity(z)


def _heun(velocity: VectorField, z: Tensor, dt: float) -> Tensor:
    first = velocity(z)
    return dt / 2 * (first + velocity(z + dt * first))


def _rk4(velocity: VectorField, z: Tensor, dt: float) -> Tensor:
    first = velocity(z)
    second = velocity(z + dt / 2 * first)
    third = velocity(z + dt / 2 * second)
    return dt / 6 * (first + 2 * second + 2 * third + velocity(z + dt * third))


_INCREMENTS: dict[str, Callable[[VectorField, Tensor, float], Tensor]] = {"euler": _euler, "heun": _heun, "rk4": _rk4}


def _adaptive(velocity: VectorField, z: Tensor, time: float, tolerance: float) -> Tensor:
    try:
        with torch.inference_mode(False):  # its tables are tensors, made at the first import
            from torchdiffeq import odeint
    except ModuleNotFoundError:
        raise ConfigError(
            "model.integrator=adaptive needs torchdiffeq: pip install 'recursive-reasoners[ode]'"
        ) from None
    wide = at_least_float32(z)
    times = torch.tensor([0.0, time], dtype=wide.dtype, device=z.device)
    try:
        path = odeint(lambda _, y: velocity(y.to(z.dtype)).to(wide.dtype), wide, times, rtol=tolerance, atol=tolerance)
    except AssertionError as error:  # its steps became too small to count
        raise ConfigError(f"model.tolerance={tolerance:g} cannot be met ({error}); type model.tolerance=1e-5") from None
    return path[-1].to(z.dtype)
