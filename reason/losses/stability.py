"""Routh-Hurwitz terms: phase volume contracts at a solution and expands at the puzzle (CMM eq. 29, 31, 32).

N = S'·D is the size of z_H. J = ∂F_H/∂z_H, not the J − I of eq. 24: only then is Δ₁ = N − tr J > 0 the condition
tr(∂F/∂z − I) < 0. Δ₁ > 0 is necessary for stability, not sufficient: `reason.extensions.figures.draw` shows both on
small maps.
"""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from reason.dynamics.jacobian import estimated_diagonal, vjp
from reason.models.base import State
from reason.models.mapped import with_maps
from reason.models.states import rows_of
from reason.nn.dtypes import at_least_float32
from reason.rollout import SupervisionStep


def rh_stable_z(step: SupervisionStep, rows: int | None) -> Tensor:
    """Return [ ReLU(tr J/N − 1) ]² at (z_H, z_L), the end of the supervision step (eq. 31); a scalar.

    The point is not detached: training may move the path to a point of contraction (ours).
    """
    step = _first_rows(step, rows)
    return step.row_mean((_trace(step, step.states[-1]) - 1).relu().square())


def rh_unstable_x(step: SupervisionStep, rows: int | None) -> Tensor:
    """Return [ ReLU(1 − tr J/N) ]² at (x̂, z_L⁰) (eq. 32); a scalar. x̂ is not detached (ours)."""
    step = _first_rows(step, rows)
    return step.row_mean((1 - _trace(step, with_maps(step.model).input_state(step.context))).relu().square())


def _first_rows(step: SupervisionStep, rows: int | None) -> SupervisionStep:
    """Return the step of the first `rows` rows, a random sample because rows hold random puzzles (ours)."""
    if rows is None or rows >= len(step.active):
        return step
    few = slice(0, rows)
    states = tuple(rows_of(state, few) for state in step.states)
    return replace(step, context=step.context.rows(few), states=states, active=step.active[few])


def _trace(step: SupervisionStep, state: State) -> Tensor:
    """Return tr J/N of each puzzle, (B,), by Hutchinson's estimate with one random vector.

    The prefix and the hidden booleans of mixer=linear count as cells, since they move as cells do; cells beyond the
    edge do not (ours). Reverse mode: with the backward pass that follows it costs 0.75 to 0.85 of forward mode.
    """
    f, z = with_maps(step.model).map_inside(state, step.context, "f_h")
    with step.model.autocast():
        diagonal = estimated_diagonal(f, z, 1, vjp)
    cells = at_least_float32(diagonal).mean(-1)  # (B, S')
    if step.context.mask is None:
        return cells.mean(1)
    inside = step.context.mask.squeeze(-1).to(cells.dtype)
    return (cells * inside).sum(1) / inside.sum(1).clamp(min=1)
