"""What the dynamics do at a state (docs/math.md §17): any Reasoner, any named tuple of (B, S, D) tensors as its state.

Rows of a batch are puzzles and do not see each other; every measure is one number a row. A model is best probed as
`precise` makes it: in float64, so that a residual of 1e-6 is one.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable

import torch
from torch import Tensor

from reason.dynamics.jacobian import dominant_eigenvalue, estimated_diagonal, exact_diagonal
from reason.models.base import MapKind, Reasoner, State
from reason.nn.draws import normal_like
from reason.nn.dtypes import widest_float

SMALL_MAP = 128  # numbers in a row up to which a trace is exact


def precise(model: Reasoner) -> Reasoner:
    """A copy that computes in the widest float of its device, in evaluation mode."""
    device = next(model.parameters()).device
    twin = copy.deepcopy(model).to(widest_float(device)).eval()
    twin.dtype, twin.products = widest_float(device), None
    return twin


def parts(state: State) -> dict[str, Tensor]:
    """The state's tensors (B, S, D) by name, each once: a model with a single state may hold it under two names."""
    found: dict[str, Tensor] = {}
    for name, z in zip(state._fields, state, strict=True):
        if not any(z is other for other in found.values()):
            found[name] = z
    return found


def mapped(state: State, change: Callable[[Tensor], Tensor]) -> State:
    """The state with every tensor changed; tensors that were one stay one."""
    changed = {id(z): change(z) for z in parts(state).values()}
    return type(state)(*(changed[id(z)] for z in state))


def rows_of(state: State, rows: slice | Tensor) -> State:
    """Some rows of a state."""
    return mapped(state, lambda z: z[rows])


def joined(state: State) -> Tensor:
    """All numbers of a row side by side, (B, N)."""
    return torch.cat([z.flatten(1) for z in parts(state).values()], dim=1)


def row_norm(z: Tensor) -> Tensor:
    """‖z‖₂ of every row of (B, S, D), summed in float32 at least, (B,)."""
    return torch.linalg.vector_norm(z, dim=(1, 2), dtype=torch.promote_types(z.dtype, torch.float32))


def norms(state: State) -> dict[str, Tensor]:
    """‖z‖₂ of every row, (B,), by the name of the state's part."""
    return {name: row_norm(z) for name, z in parts(state).items()}


def norm(state: State) -> Tensor:
    """‖z‖₂ of every row over all parts, (B,)."""
    return torch.stack(list(norms(state).values())).square().sum(0).sqrt()


def distance(a: State, b: State) -> Tensor:
    """‖b − a‖₂ of every row over all parts, (B,)."""
    moves = [row_norm(getattr(b, name) - z) for name, z in parts(a).items()]
    return torch.stack(moves).square().sum(0).sqrt()


def residual(before: State, after: State) -> Tensor:
    """‖z_{k+1} − z_k‖/‖z_k‖ of every row over all parts, (B,); inf from a state of 0."""
    return distance(before, after) / norm(before)


def radius(model: Reasoner, state: State, x: Tensor, kind: MapKind = "cycle", tolerance: float = 1e-3) -> list[float]:
    """ρ(∂g/∂z) of g = model.map_inside(kind), row by row, by ARPACK to a relative `tolerance`.

    nan where it does not converge, or g(z) is not finite. Tens of Jacobian products a row, each three or four calls.
    """
    points = (_one_row(model, state, x, row, kind) for row in range(len(x)))
    return [
        abs(dominant_eigenvalue(f, z, tolerance, max_iterations=100)) if f(z).isfinite().all() else math.nan
        for f, z in points
    ]


def trace(model: Reasoner, state: State, x: Tensor, kind: MapKind = "cycle", probes: int = 16) -> list[float]:
    """tr(∂g/∂z)/N of g = model.map_inside(kind), row by row; below 1 the mean real part contracts.

    N counts the numbers of a row that lie inside. Exact up to 128 numbers, else Hutchinson's estimate with `probes`
    Rademacher probes.
    """
    found = []
    for row in range(len(x)):
        f, z = _one_row(model, state, x, row, kind)
        diagonal = exact_diagonal(f, z) if z.numel() <= SMALL_MAP else estimated_diagonal(f, z, probes)
        inside = model.inside(x[row : row + 1])
        found.append(diagonal.mean().item() / (1.0 if inside is None else inside.mean().item()))
    return found


def _one_row(
    model: Reasoner, state: State, x: Tensor, row: int, kind: MapKind
) -> tuple[Callable[[Tensor], Tensor], Tensor]:
    only = slice(row, row + 1)
    return model.map_inside(rows_of(state, only), x[only], kind)


def perturbed(state: State, size: float, inside: Tensor | None = None) -> State:
    """z + size · ‖z‖ · u, u a random direction over all parts of a row together, 0 beyond the edge."""
    noise = mapped(state, lambda z: normal_like(z) if inside is None else normal_like(z) * inside)
    scale = size * norm(state) / norm(noise)
    return _along(state, noise, scale)


def _along(state: State, direction: State, scale: Tensor) -> State:
    """z + scale · direction, scale (B,)."""
    moved = {
        name: z + scale.view(-1, *[1] * (z.ndim - 1)) * getattr(direction, name) for name, z in parts(state).items()
    }
    by_tensor = {id(z): moved[name] for name, z in parts(state).items()}
    return type(state)(*(by_tensor[id(z)] for z in state))


@torch.no_grad()
def perturb_and_return(model: Reasoner, state: State, x: Tensor, steps: int, size: float = 0.1) -> Tensor:
    """‖z'_k − z_k‖/‖z'_0 − z_0‖, (steps + 1, B): how far a pushed state is from the one left alone, k steps later.

    The push is `size` · ‖z‖ in a random direction. Towards 0 the state returns to where it would have gone.
    """
    pushed, distances = perturbed(state, size, model.inside(x)), []
    for step in range(steps + 1):
        if step:
            state, pushed = model.step(state, x), model.step(pushed, x)
        distances.append(distance(state, pushed))
    return torch.stack(distances) / distances[0]


@torch.no_grad()
def growth_rate(model: Reasoner, state: State, x: Tensor, steps: int, size: float = 1e-6) -> Tensor:
    """The largest Lyapunov exponent, (B,): mean ln(‖δ_{k+1}‖/‖δ_k‖) of a small perturbation, per supervision step.

    Benettin's method: after every step the perturbation is brought back to size · ‖z‖ along its direction. Above 0
    neighbouring thoughts part; at a fixed point it nears ln ρ of the map `step`.
    """
    inside = model.inside(x)
    pushed, total = perturbed(state, size, inside), torch.zeros(len(x), dtype=x.dtype, device=x.device)
    tiny = torch.finfo(x.dtype).tiny
    for _ in range(steps):
        before = distance(state, pushed)
        state, pushed = model.step(state, x), model.step(pushed, x)
        after = distance(state, pushed)
        total += (after / before.clamp(min=tiny)).clamp(min=tiny).log()
        if (after == 0).any():  # forgotten to the last bit: go on in a new direction
            lost, fresh = (after == 0), perturbed(state, size, inside)
            pushed = type(state)(*(_where(lost, a, b) for a, b in zip(fresh, pushed, strict=True)))
            after = distance(state, pushed)
        away = type(state)(*(b - a for a, b in zip(state, pushed, strict=True)))
        pushed = _along(state, away, size * norm(state) / after.clamp(min=tiny))
    return total / steps


@torch.no_grad()
def oscillation(model: Reasoner, state: State, x: Tensor) -> Tensor:
    """‖z^{i+2} − z^i‖/‖z^{i+1} − z^i‖ over the low state's updates i inside one supervision step, (updates − 1, B).

    Near 0 the low state jumps between two points (CMM fig. 6 expects it at equilibrium), near 2 it goes straight on.
    The low state is z_L; of a model without one, its last state. nan where it does not move at all.
    """
    name = list(parts(state))[-1]
    seen = [getattr(state, name)]
    for moved in model.path(state, x):
        if getattr(moved, name) is not seen[-1]:
            seen.append(getattr(moved, name))
    flat = [z.flatten(1) for z in seen]
    ratios = [
        torch.linalg.vector_norm(c - a, dim=1) / torch.linalg.vector_norm(b - a, dim=1)
        for a, b, c in zip(flat, flat[1:], flat[2:], strict=False)
    ]
    return torch.stack(ratios) if ratios else torch.empty(0, len(x), dtype=x.dtype, device=x.device)


def _where(rows: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return torch.where(rows.view(-1, *[1] * (a.ndim - 1)), a, b)
