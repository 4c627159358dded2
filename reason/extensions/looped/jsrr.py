"""JSRR, STARS' Jacobian spectral radius regularisation, and its L2 baseline (docs/math.md §10)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from pydantic import Field
from torch import Tensor

from reason.dynamics.jacobian import jvp, vjp
from reason.extensions.looped.power import power_iteration, unit_normal_like
from reason.losses.equilibrium import maps
from reason.nn.dtypes import at_least_float32
from reason.rollout import Unroll
from reason.settings.base import BaseConfig, Need

if TYPE_CHECKING:
    from reason.config.schema import Config


class JsrrConfig(BaseConfig):
    """How the growth of a perturbation is measured."""

    iterations: int = Field(
        1, ge=1, le=1000, description="K, number of Jacobian products; 1: Algorithm 1; 2: eq. 3, read literally"
    )
    rows: int | None = Field(
        None, ge=1, description="number of measured rows, from the start of the batch; none: all (ours)"
    )
    transposed: bool = Field(False, description="use vᵀJ instead of J v, as the authors' code does")
    convex: bool = Field(
        True, description="multiply LM's weight by 1 − λ, λ = loss.weights.jsrr: (1 − λ)LM + λ·JSRR (eq. 4)"
    )


def constant_weights(config: Config) -> Iterator[Need]:
    """Maps of the state; where λ is taken from LM's weight, weights that no balancer moves."""
    yield from maps(config)
    moved = config.loss.jsrr.convex and config.balance.kind != "fixed"
    yield Need(not moved, "loss weights that no balancer moves", "balance.kind=fixed, or loss.jsrr.convex=false")


def jsrr_loss(unroll: Unroll, config: JsrrConfig) -> Tensor:
    """Mean over active rows of ‖j‖² after K times j = J v, v = j/‖j‖ (STARS eq. 3, Algorithm 1), J at the last state.

    J belongs to one loop of a looped model, and to one H-cycle of a recursive one. v is a random unit vector of each
    row over all its cells, detached between products; dropout is off, and J is taken in float32 whatever the
    activations are (ours). The state is detached; x̂ belongs to the map, so the gradient reaches the embedding where
    the map adds it. With K = 1 and random v this is a Frobenius estimate, E‖J v‖² = ‖J‖²_F/N over the N numbers of the
    map (S'·D of a state), not a spectral radius; with growing K it nears |λ₁|².
    """
    last, few = unroll.states[-1], slice(0, config.rows)
    state = type(last)(*(at_least_float32(z.detach())[few] for z in last))
    f, z = unroll.model.map_inside(state, unroll.context.at_least_float32().rows(few), "cycle")
    v = unit_normal_like(z)
    found = power_iteration(f, z, v, config.iterations, vjp if config.transposed else jvp)
    return torch.where(unroll.active[few], found.growth.square(), 0.0).mean().float()


def l2_loss(unroll: Unroll) -> Tensor:
    """Mean over active rows and positions of ‖z_T − z_{T−1}‖₂ (STARS §4.3.2), over all parts of the state alike.

    Where T = 1, z_0 is the state that the step started from.
    """
    before, after = (unroll.before, *unroll.states)[-2:]
    moves = [
        torch.linalg.vector_norm((b - a).float(), dim=-1).mean(-1)  # (B, S) -> (B,)
        for a, b in zip(before, after, strict=True)
    ]
    return torch.where(unroll.active, torch.stack(moves).mean(0), 0.0).mean()
