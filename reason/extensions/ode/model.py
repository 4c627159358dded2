"""The recursive model as an ODE, dz/dt = F(z + injected) − z, or an SDE with multiplicative noise (docs/math.md §2).

The core takes one Euler step of length Δt in each network call. Here a call may take several steps, by Euler, Heun or
Runge-Kutta, and CMM's averaged equation moves z_H and z_L together. The weights are those of the core's model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor

from reason.models.base import Context, Shape
from reason.models.recursion import Cycles, Network, RecursiveState, Update, euler_maruyama, euler_step
from reason.models.recursive import RecursiveModel, States
from reason.models.recursive_config import RecursiveConfig
from reason.models.states import normal_like
from reason.settings.base import Readable, When

VectorField = Callable[[Tensor], Tensor]  # z ↦ dz/dt, any shape
Integrator = Literal["euler", "heun", "rk4"]


class OdeConfig(RecursiveConfig):
    """The settings of the recursive model, and those of its integration."""

    integrator: Readable[Integrator] = Field("euler", description="integrator of dz/dt = F(z) − z")
    substeps: Readable[int] = Field(1, ge=1, le=10_000, description="equal integration steps in each Δt")
    equation: Readable[Literal["impulse", "averaged"]] = Field(
        "impulse",
        description="impulse: z_H changes once per cycle (CMM eq. 16); averaged: z_H changes together with z_L, at "
        "1/N_L of its speed (eq. 19)",
    )
    noise: Readable[Literal["none", "additive", "multiplicative"]] = Field(  # type: ignore[assignment]
        "none", description="normal noise after every call in training (CMM's NSDE); multiplicative: noise times F(z)"
    )
    sigma: Annotated[float, When("noise", "additive", "multiplicative")] = Field(
        0.01, gt=0, description="σ, magnitude of the noise"
    )

    @model_validator(mode="after")
    def _integrates(self) -> OdeConfig:
        if self.noise != "none" and self.integrator != "euler":
            raise ValueError(
                f"integrator {self.integrator} solves the equation without noise: type model.noise=none, or "
                "model.integrator=euler"
            )
        by_cycle = self.gradient in ("last-cycle", "all-cycles")
        if self.equation == "averaged" and (self.noise != "none" or self.states == 1 or not by_cycle):
            raise ValueError(
                "equation averaged moves z_H and z_L together, without noise: type model.noise=none, model.states=2 "
                "and model.gradient=last-cycle, or model.equation=impulse"
            )
        return self

    @property
    def integrated(self) -> bool:
        """Return whether a setting of this extension differs from the core's model."""
        settings = (self.integrator, self.substeps, self.equation)
        return settings != ("euler", 1, "impulse") or self.noise == "multiplicative"

    @property
    def plain_update(self) -> bool:
        """Return whether the update of every call is that of HRM and TRM, z ← F(z + injected)."""
        return super().plain_update and not self.integrated


class OdeModel(RecursiveModel):
    """The recursive model with the updates of an `OdeConfig`."""

    config: OdeConfig

    def __init__(self, config: RecursiveConfig, shape: Shape, dtype: torch.dtype = torch.float32):
        """Convert a config of the core, for which the settings of this extension have no effect."""
        super().__init__(OdeConfig(**config.model_dump()), shape, dtype)
        if self.config.integrated:
            self.update, self.noisy_update = (integrated_update(self.config, noisy) for noisy in (False, True))

    def calls(self, state: States, context: Context, cycles: Cycles, training: bool = False) -> Iterator[States]:
        """Yield the state after each network call of `cycles`; under the averaged equation after each cycle."""
        if self.config.equation == "averaged":
            return self._averaged(state, context, cycles, training)
        return super().calls(state, context, cycles, training)

    def _averaged(self, state: States, context: Context, cycles: Cycles, training: bool) -> Iterator[RecursiveState]:
        """Integrate z_H and z_L together; the velocity of z_H is divided by N_L (CMM eq. 18 and 19)."""
        c, x = self.config, context.x
        f_l, f_h = self.functions(context, training)

        def velocity(pair: Tensor) -> Tensor:
            z_h, z_l = pair.unbind(1)
            return torch.stack([(f_h(z_h + z_l) - z_h) / cycles.low, f_l(z_l + (z_h + x)) - z_l], dim=1)

        for h_cycle in range(cycles.high):
            with cycles.gradient(h_cycle, 0):
                pair = torch.stack(state, dim=1)  # (B, 2, S', D)
                pair = integrate(velocity, pair, c.l_cycles * c.dt, c.l_cycles * c.substeps, c.integrator)
                state = RecursiveState(*pair.unbind(1))
            yield state


def integrated_update(c: OdeConfig, noisy: bool) -> Update:
    """Return the update of one call, which integrates over Δt in `substeps` steps."""
    noise = c.noise if noisy else "none"
    sigma = 0.0 if noise == "none" else c.sigma

    def euler(f: Network, z: Tensor, injected: Tensor | None) -> Tensor:
        for _ in range(c.substeps):
            moved = euler_step(f, z, injected)
            # The noise is σζ (CMM eq. 48) or σF(z)⊙ζ (eq. 49, of strong order ½).
            zeta = moved * normal_like(moved) if noise == "multiplicative" else None
            z = euler_maruyama(z, moved, c.dt / c.substeps, sigma, zeta)
        return z

    def noiseless(f: Network, z: Tensor, injected: Tensor | None) -> Tensor:
        return integrate(lambda z: euler_step(f, z, injected) - z, z, c.dt, c.substeps, c.integrator)

    return euler if c.integrator == "euler" else noiseless


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
