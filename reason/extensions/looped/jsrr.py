"""JSRR, STARS' Jacobian spectral radius regularisation, its L2 baseline, and the blind spot's norm penalty.

The equations are in docs/math.md §10 and docs/math.md §14.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from pydantic import Field
from torch import Tensor

from reason.dynamics.jacobian import jvp
from reason.losses import maps
from reason.models.mapped import with_maps
from reason.models.states import normal_like
from reason.nn.dtypes import at_least_float32
from reason.rollout import SupervisionStep
from reason.settings.base import BaseConfig, Need

if TYPE_CHECKING:
    from reason.config.schema import Config


class JsrrConfig(BaseConfig):
    """The estimators of the growth of a perturbation."""

    iterations: int = Field(
        1, ge=1, le=1000, description="number n of Jacobian products; 1: Algorithm 1; 2: eq. 3, read literally"
    )


def constant_weights(config: Config) -> Iterator[Need]:
    """Require maps of the state, and weights without a balancer, since LM's is multiplied by 1 − λ."""
    yield from maps(config)
    yield Need(config.balance.kind == "fixed", "loss weights without a balancer", "balance.kind=fixed")


def jsrr_loss(step: SupervisionStep, rows: int | None, config: JsrrConfig) -> Tensor:
    """Return the mean over active rows of ‖j‖² after n steps j = J v, v = j/‖j‖, J at the last state (STARS eq. 3).

    J belongs to one loop of a looped model, and to one H-cycle of a recursive one. v is a random unit vector of each
    row over all its cells, detached between products; dropout is off, and J is taken in float32 whatever the
    activations are (ours). The state is detached; x̂ belongs to the map, so the gradient reaches the embedding if
    the map adds it. With n = 1 and random v this is a Frobenius estimate, E‖J v‖² = ‖J‖²_F/N over the N numbers of the
    map (S'·D of a state), not a spectral radius; with growing n it approaches |λ₁|² if a real eigenvalue dominates.
    """
    last, few = step.states[-1], slice(0, rows)
    state = type(last)(*(at_least_float32(z.detach())[few] for z in last))
    context = step.context.rows(few)
    mask = None if context.mask is None else at_least_float32(context.mask)
    f, z = with_maps(step.model).map_inside(state, replace(context, x=at_least_float32(context.x), mask=mask), "cycle")
    v = _unit(normal_like(z))
    with torch.no_grad():
        for _ in range(config.iterations - 1):
            v = _unit(jvp(f, z, v))
    growth = _row_norm(jvp(f, z, v)).flatten()
    return torch.where(step.active[few], growth.square(), 0.0).mean().float()


def _unit(j: Tensor) -> Tensor:
    return j / _row_norm(j).clamp(min=torch.finfo(j.dtype).tiny)


def _row_norm(z: Tensor) -> Tensor:
    """Return ‖z‖₂ of each row, in shape (B, 1, ...)."""
    return torch.linalg.vector_norm(z.flatten(1), dim=1).view(-1, *[1] * (z.ndim - 1))


def l2_loss(step: SupervisionStep) -> Tensor:
    """Return the mean over active rows, positions and parts of the state of ‖z_T − z_{T−1}‖₂ (STARS §4.3.2).

    If T = 1, z_0 is the initial state of the step.
    """
    before, after = (step.before, *step.states)[-2:]
    moves = [
        torch.linalg.vector_norm((b - a).float(), dim=-1).mean(-1)  # (B, S) -> (B,)
        for a, b in zip(before, after, strict=True)
    ]
    return step.row_mean(torch.stack(moves).mean(0))


def norm_penalty(step: SupervisionStep) -> Tensor:
    """Return T⁻¹ Σ_t E‖h_t‖²_rms over the T states of the backward pass, ‖h‖²_rms = ‖h‖²/D of a token (blind spot §3).

    E is over active rows, tokens and, if a state has several parts, parts (ours).
    """
    sizes = [z.float().square().mean(dim=(1, 2)) for state in step.states for z in state]  # each (B,)
    return step.row_mean(torch.stack(sizes).mean(0))
