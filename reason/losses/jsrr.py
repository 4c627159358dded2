"""JSRR, STARS' Jacobian spectral radius regularisation, and its L2 baseline (docs/math.md §10)."""

from __future__ import annotations

from itertools import pairwise

import torch
from pydantic import Field
from torch import Tensor

import reason.settings.capabilities as can
from reason.dynamics.jacobian import jvp, power_iteration, row_norm_keepdim, unit_normal_like, vjp
from reason.models.base import MapKind
from reason.nn.dtypes import at_least_float32
from reason.rollout import Unroll
from reason.settings.base import BaseConfig


class JsrrConfig(BaseConfig):
    """How the growth of a perturbation is measured."""

    iterations: int = Field(1, ge=1, le=1000, description="K products; 1: Algorithm 1 (eq. 3 read literally is 2)")
    rows: int | None = Field(
        None, ge=1, description="of a batch that are measured, the first so many; none: all (ours)"
    )
    warm_start: bool = Field(False, description="v starts from the direction that the step before ended with")
    through_state: bool = Field(False, description="the gradient also reaches the state z_t at which J is taken")
    transposed: bool = Field(False, description="vᵀJ for J v (the authors' code)")
    map: MapKind = Field("cycle", description="of recursive models: whose J; a looped model has one map, its loop")
    convex: bool = Field(True, description="λ = loss.weights.jsrr takes λ from LM's weight: (1 − λ)LM + λ·JSRR (eq. 4)")

    def used_with(self) -> dict[str, can.Capability]:
        """A choice of maps, and an LM to take weight from."""
        return {"map": can.SEVERAL_MAPS, "convex": can.term("lm")}


class L2Config(BaseConfig):
    """How far the state may move in a loop."""

    squared: bool = Field(False, description="‖z_t − z_{t−1}‖² for ‖z_t − z_{t−1}‖")
    every_loop: bool = Field(False, description="the mean over all loops; else the last one")

    def used_with(self) -> dict[str, can.Capability]:
        """More than one loop."""
        return {"every_loop": can.SEVERAL_LOOPS}


def jsrr_loss(unroll: Unroll, config: JsrrConfig) -> Tensor:
    """Mean over active rows of ‖j‖² after K times j = J v, v = j/‖j‖ (STARS eq. 3, Algorithm 1), J at the last state.

    v is a random unit vector of each row over all its cells, or, warm-started, what `unroll.memory` keeps of the step
    before: the direction of whatever row stood there (ours). v is detached between products, dropout is off, and J is
    taken in float32 whatever the activations are (ours). x̂ belongs to the map, so that its gradient reaches the
    embedding where the map adds it. With K = 1 and random v this is a Frobenius estimate,
    E‖J v‖² = ‖J‖²_F/N over the N numbers of the map (S'·D of a state), not a spectral radius; with K growing it nears
    |λ₁|².
    """
    last, few = unroll.states[-1], slice(0, config.rows)
    state = type(last)(*(at_least_float32(z if config.through_state else z.detach())[few] for z in last))
    f, z = unroll.model.map_inside(state, at_least_float32(unroll.x)[few], config.map)
    v = unit_normal_like(z.detach())
    kept = unroll.memory.get("jsrr") if config.warm_start else None
    if kept is not None and kept.shape == z.shape:
        v = torch.where(row_norm_keepdim(kept) > 0, kept, v)
    found = power_iteration(f, z, v, config.iterations, vjp if config.transposed else jvp)
    if config.warm_start:
        unroll.memory["jsrr"] = found.direction
    return torch.where(unroll.active[few], found.growth.square(), 0.0).mean().float()


def l2_loss(unroll: Unroll, config: L2Config) -> Tensor:
    """Mean over active rows and positions of ‖z_T − z_{T−1}‖₂ (STARS §4.3.2), over all parts of the state alike.

    `squared` and `every_loop` are options (ours). Where T = 1, z_0 is the state that the step started from.
    """
    course = (unroll.before, *unroll.states)
    pairs = list(pairwise(course))
    moves = []
    for before, after in pairs if config.every_loop else pairs[-1:]:
        for a, b in zip(before, after, strict=True):
            size = torch.linalg.vector_norm((b - a).float(), dim=-1)  # (B, S)
            moves.append((size.square() if config.squared else size).mean(-1))
    return torch.where(unroll.active, torch.stack(moves).mean(0), 0.0).mean()
