"""The recursion of HRM, TRM and CMM: two nested loops (docs/math.md §1).

One supervision step takes a puzzle x̂ and the states z_H and z_L that the previous step returned:

    repeat N_H times:
        repeat N_L times:  z_L ← F_L(z_L + (z_H + x̂))
        z_H ← F_H(z_H + z_L)

HRM has two networks, TRM and CMM have one: F_H = F_L. The setting `model.gradient` says how many of the N_H·(N_L + 1)
calls carry a gradient, counted from the end (`Cycles.gradient_calls`):

    last-call     2                HRM: the last call of each network
    last-cycle    N_L + 1          TRM and CMM: the last H-cycle
    all-cycles    N_H·(N_L + 1)    CMM's rows "all states of the H-module", as interpreted here (ours): every call

The earlier calls run without a graph: they store no activations, and the later calls start from the states that they
reached. Between two supervision steps `reason.rollout` detaches the states in every case. The loops are generators: a
step takes the last state that they yield, `RecursiveModel.path` lists all.

`update` is the update rule of one call. That of HRM and TRM is `euler_step`: z ← F(z + injected), an Euler step of
length 1 of dz/dt = F(z + injected) − z. `update_of` returns it, or steps of another length, or with noise (CMM's NSDE).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from reason.models.states import normal_like

Network = Callable[[Tensor], Tensor]  # F: (B, S', D) -> (B, S', D)
Update = Callable[[Network, Tensor, Tensor | None], Tensor]  # (network, state, input injection) -> next state


class RecursiveState(NamedTuple):
    """z_H and z_L, each (B, S', D)."""

    z_h: Tensor
    z_l: Tensor


class OneState(NamedTuple):
    """TRM's single z, (B, S', D), which every call updates and the readout takes as z_H."""

    z_h: Tensor


class Cycles(NamedTuple):
    """The number of network calls in a supervision step, and how many of them carry a gradient."""

    high: int  # N_H
    low: int  # N_L, in each of the N_H cycles
    gradient_calls: int  # the last ones

    @property
    def calls(self) -> int:
        """Return N_H·(N_L + 1), the network calls of a supervision step."""
        return self.high * (self.low + 1)

    def gradient(self, h_cycle: int, l_cycle: int) -> torch.set_grad_enabled:
        """Return the context of call `l_cycle` of cycle `h_cycle` (from 0): the last `gradient_calls` build a graph.

        Calls 0 to N_L − 1 of a cycle are those of F_L, call N_L is that of F_H.
        """
        remaining = (self.high - h_cycle) * (self.low + 1) - l_cycle  # this call and all later ones
        return torch.set_grad_enabled(torch.is_grad_enabled() and remaining <= self.gradient_calls)


def euler_step(f: Network, z: Tensor, injected: Tensor | None) -> Tensor:
    """Return F(z + injected); shapes as z."""
    return f(z if injected is None else z + injected)


def euler_maruyama(z: Tensor, f: Tensor, dt: float, sigma: float, zeta: Tensor | None = None) -> Tensor:
    """Return z + Δt(f − z) + √Δt·σ·ζ with f = F(z + injected); shapes as z (CMM eq. 47 and 48).

    ζ ~ N(0, I) is drawn from the default generator unless it is given; σ = 0 draws nothing.
    """
    moved = f if dt == 1.0 else z + dt * (f - z)
    if sigma == 0.0:
        return moved
    return moved + (sigma * dt**0.5) * (normal_like(f) if zeta is None else zeta)


def update_of(dt: float, sigma: float = 0.0) -> Update:
    """Return the update of a call that moves z by Δt, with noise of magnitude σ."""
    if dt == 1.0 and sigma == 0.0:
        return euler_step
    return lambda f, z, injected: euler_maruyama(z, euler_step(f, z, injected), dt, sigma)


def two_states(
    f_l: Network, f_h: Network, state: RecursiveState, x: Tensor, cycles: Cycles, update: Update
) -> Iterator[RecursiveState]:
    """Yield z_H and z_L after each network call, as in HRM, TRM and CMM."""
    z_h, z_l = state
    for h_cycle in range(cycles.high):
        for l_cycle in range(cycles.low):
            with cycles.gradient(h_cycle, l_cycle):
                z_l = update(f_l, z_l, z_h + x)  # (B, S', D)
            yield RecursiveState(z_h, z_l)
        with cycles.gradient(h_cycle, cycles.low):
            z_h = update(f_h, z_h, z_l)
        yield RecursiveState(z_h, z_l)


def one_state(f: Network, state: OneState, x: Tensor, cycles: Cycles, update: Update) -> Iterator[OneState]:
    """Yield TRM's single z after each network call: the low calls add the puzzle, the high one does not."""
    (z,) = state
    for h_cycle in range(cycles.high):
        for l_cycle in range(cycles.low):
            with cycles.gradient(h_cycle, l_cycle):
                z = update(f, z, x)
            yield OneState(z)
        with cycles.gradient(h_cycle, cycles.low):
            z = update(f, z, None)
        yield OneState(z)


def recomputed(f: Network) -> Network:
    """Apply activation checkpointing to each call of `f`."""

    def call(h: Tensor) -> Tensor:
        if not torch.is_grad_enabled():
            return f(h)
        return checkpoint(f, h, use_reentrant=False, preserve_rng_state=False)

    return call
