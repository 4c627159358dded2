"""Equilibrium losses: z_H and x̂ as fixed points of F (CMM eq. 30; docs/math.md §5)."""

from __future__ import annotations

from torch import Tensor

from reason.models.base import State
from reason.models.mapped import with_maps
from reason.nn.dtypes import at_least_float32
from reason.rollout import SupervisionStep


def equilibrium_z(step: SupervisionStep) -> Tensor:
    """Return [ sg(z_H) − F_H(z_H + z_L) ]² at the end of the supervision step; a scalar.

    [·]² is the mean over all elements. The gradient flows through the weights and the argument of F.
    The target z_H is detached. F carries no noise (ours).
    """
    return _residual(step, step.states[-1])


def equilibrium_x(step: SupervisionStep) -> Tensor:
    """Return [ sg(x̂) − F_H(x̂ + z_L⁰) ]², with the model's initial low state z_L⁰ (ours); a scalar."""
    return _residual(step, with_maps(step.model).input_state(step.context))


def _residual(step: SupervisionStep, state: State) -> Tensor:
    f, z = with_maps(step.model).map(state, step.context, "f_h")
    with step.model.autocast():
        moved = f(z)
    gap = at_least_float32(z.detach()) - at_least_float32(moved)
    return step.row_mean(gap.square().flatten(1).mean(1))
