"""Measures the dynamics of one puzzle at a state and along a trajectory (docs/math.md §17), for any Reasoner.

Use the model that `precise` returns: in float64, a residual of 1e-6 can be measured.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from reason.dynamics.jacobian import Map, estimated_diagonal, jvp
from reason.models.base import Context, Reasoner, State
from reason.models.mapped import with_maps
from reason.models.states import distance, mapped, norm, normal_like

LONGEST_PERIOD = 8
AT_REST = 1e-3  # residual up to which a trajectory's end is a fixed point
CLOSE = 0.1  # a cycle: after its period the state returns, up to a tenth of one step's distance (ours)


def joined(state: State) -> Tensor:
    """Concatenate all parts of a state, (B, N)."""
    return torch.cat([z.flatten(1) for z in state], dim=1)


@torch.no_grad()
def eigenvalues(f: Map, z: Tensor, count: int, tolerance: float = 1e-3) -> np.ndarray:
    """Return the `count` eigenvalues of largest modulus of J = ∂f/∂z at one row z (1, …), by ARPACK with products J v.

    A small map returns all of them. Those that have not converged after 300 iterations are omitted; all, if f(z) is not
    finite.
    """
    if not f(z).isfinite().all():
        return np.empty(0)
    from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigs  # for this function only: slow to import

    size = z.numel()
    if size <= count + 2:
        columns = [jvp(f, z, e.view_as(z)).flatten() for e in torch.eye(size, dtype=z.dtype)]
        return np.asarray(torch.linalg.eigvals(torch.stack(columns, dim=1)))

    def product(v: np.ndarray) -> np.ndarray:
        direction = torch.from_numpy(np.ascontiguousarray(v, dtype=np.float64)).to(z)
        return jvp(f, z, direction.view(z.shape)).flatten().cpu().double().numpy()

    start = np.random.default_rng(0).standard_normal(size)
    operator = LinearOperator((size, size), matvec=product, dtype=np.float64)
    try:
        return np.asarray(eigs(operator, count, v0=start, tol=tolerance, maxiter=300, return_eigenvectors=False))
    except ArpackNoConvergence as failure:
        return np.asarray(failure.eigenvalues)


@torch.no_grad()
def radius(model: Reasoner, state: State, context: Context) -> float:
    """Return ρ(∂g/∂z) of g = model.map_inside("cycle"); nan if it does not converge, or g(z) is not finite.

    Tens of Jacobian products, each three or four calls.
    """
    f, z = with_maps(model).map_inside(state, context, "cycle")
    values = eigenvalues(f, z, 1)
    return float(np.abs(values).max()) if len(values) else math.nan


def trace(model: Reasoner, state: State, context: Context) -> float:
    """Return tr(∂g/∂z)/N by Hutchinson's estimate with 16 probes, N active numbers; < 1: contracts on average."""
    f, z = with_maps(model).map_inside(state, context, "cycle")
    inside = 1.0 if context.mask is None else context.mask.mean().item()
    return estimated_diagonal(f, z, probes=16).mean().item() / inside


def pushed(state: State, direction: State, size: float) -> State:
    """Return z + size · ‖z‖ · d/‖d‖, with norms over all parts."""
    scale = size * norm(state) / norm(direction)
    return mapped(state, lambda z, d: z + scale.view(-1, 1, 1) * d, direction)


def random_direction(state: State, context: Context) -> State:
    """Draw a state of random normals, 0 beyond the edge of the board."""
    return mapped(state, lambda z: normal_like(z) * (1.0 if context.mask is None else context.mask))


def perturb_and_return(model: Reasoner, state: State, context: Context, steps: int) -> list[float]:
    """Return ‖z'_k − z_k‖/‖z'_0 − z_0‖, k = 0 … steps, the distance of a perturbed state from the unperturbed one.

    The perturbation is a tenth of ‖z‖ in a random direction. If the ratio tends to 0, the state returns to its path.
    """
    other = pushed(state, random_direction(state, context), 0.1)
    distances = [distance(state, other)]
    for _ in range(steps):
        state, other = model.step(state, context), model.step(other, context)
        distances.append(distance(state, other))
    return (torch.cat(distances) / distances[0]).tolist()


def growth_rate(model: Reasoner, state: State, context: Context, steps: int) -> float:
    """Return the largest Lyapunov exponent: mean ln(‖δ_{k+1}‖/‖δ_k‖) of a small perturbation, per supervision step.

    Benettin's method: after every step the perturbation is rescaled to 1e-6 · ‖z‖. Above 0, neighbouring trajectories
    diverge; at a fixed point the value tends to ln ρ of the map `step`.
    """
    total, tiny = 0.0, torch.finfo(context.x.dtype).tiny
    direction = random_direction(state, context)
    for _ in range(steps):
        other = pushed(state, direction, 1e-6)
        before = distance(state, other)
        state, other = model.step(state, context), model.step(other, context)
        after = distance(state, other)
        total += (after / before).clamp(min=tiny).log().item()
        direction = mapped(state, lambda a, b: b - a, other)
        if after == 0:  # the perturbation vanished: continue in a new direction
            direction = random_direction(state, context)
    return total / steps


def oscillation(model: Reasoner, state: State, context: Context) -> list[float]:
    """Return ‖z^{i+2} − z^i‖/‖z^{i+1} − z^i‖ over the low state's updates i inside one supervision step.

    Near 0 the low state jumps between two points (CMM fig. 6 expects it at equilibrium), near 2 it moves straight.
    The low state is z_L, or the last state of a model without z_L. nan if it does not move.
    """
    seen = [state[-1]]
    for moved in with_maps(model).path(state, context):
        if moved[-1] is not seen[-1]:
            seen.append(moved[-1])
    z = torch.cat(seen).flatten(1)
    return ((z[2:] - z[:-2]).norm(dim=1) / (z[1:-1] - z[:-2]).norm(dim=1)).tolist()


def trajectory(points: Tensor, solved: bool) -> dict[str, Any]:
    """Return the trajectory of a puzzle's states (T + 1, N), the initial one first; `solved`: exact at step T.

    residual, T numbers: ‖z_k − z_{k−1}‖/‖z_{k−1}‖; norm, T + 1 numbers; end: the kind of its end.
    """
    norms, moves = points.norm(dim=1), points.diff(dim=0).norm(dim=1)
    residual = (moves / norms[:-1]).tolist()
    return {"solved": solved, "end": end_of(points, solved), "residual": residual, "norm": norms.tolist()}


def end_of(points: Tensor, solved: bool) -> str:
    """Return "right fixed point", "wrong fixed point", "cycle of P", "drift" or "divergence" (T + 1, N) (ours).

    A fixed point: the last residual is at most `AT_REST`; a cycle of period P ≤ 8: z_{T−P} is back at z_T, to within a
    tenth of the last move; divergence: a number of the state is no longer finite; drift: it still moves.
    """
    back = (points[-1 - LONGEST_PERIOD :].flip(0) - points[-1]).norm(dim=1).tolist()  # from z_T, z_{T−1}, …
    if not math.isfinite(back[1]):
        return "divergence"
    if back[1] <= AT_REST * points[-2].norm():
        return f"{'right' if solved else 'wrong'} fixed point"
    period = next((p for p in range(2, len(back)) if back[p] <= CLOSE * back[1]), None)
    return f"cycle of {period}" if period else "drift"
