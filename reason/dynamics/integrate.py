"""Integrators of dz/dt = F(z) − z and dz = (F(z) − z)dt + σ G dW (CMM eq. 20, 47; docs/math.md §2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

VectorField = Callable[[Tensor], Tensor]  # z ↦ dz/dt, any shape
Noise = Literal["none", "additive", "multiplicative"]
Integrator = Literal["euler", "heun", "rk4"]


def euler_maruyama(z: Tensor, f: Tensor, dt: float, noise: Noise, sigma: float, zeta: Tensor | None = None) -> Tensor:
    """Take one step: z + Δt(f − z) + √Δt·σ·G⊙ζ with f = F(z); shapes as z.

    G is 1 (additive, CMM eq. 48) or f (multiplicative, eq. 49); both equations are this one at Δt = 1. ζ ~ N(0, I)
    comes from the default generator unless given. Strong order 1 (additive) and ½ (multiplicative).
    """
    moved = f if dt == 1.0 else z + dt * (f - z)
    if noise == "none":
        return moved
    kick = normal_like(f) if zeta is None else zeta
    return moved + (sigma * dt**0.5) * (kick if noise == "additive" else f * kick)


def normal_like(z: Tensor) -> Tensor:
    """Draw N(0, 1) in z's shape, type and device, independent of z's memory layout.

    The numbers of `torch.randn_like` depend on the layout, and on a CPU it draws those of a transposed tensor one by
    one, seven times as slowly.
    """
    return torch.randn(z.shape, dtype=z.dtype, device=z.device)


def integrate(velocity: VectorField, z: Tensor, time: float, steps: int, method: Integrator) -> Tensor:
    """Integrate dz/dt = velocity(z) over `time` in `steps` equal steps; shapes as z."""
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


_INCREMENTS = {"euler": _euler, "heun": _heun, "rk4": _rk4}
