"""What the dynamics do at a state and along a trajectory (docs/math.md §17), for any Reasoner.

Every measure is one number a row. Probe a model as `precise` makes it: in float64, where a residual of 1e-6 can be
measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from reason.context import Context
from reason.dynamics.integrate import normal_like
from reason.dynamics.jacobian import estimated_diagonal
from reason.evaluation.states import distance, mapped, norm, parts, residual, rows_of
from reason.extensions.studies.spectra import dominant_eigenvalue, exact_diagonal
from reason.models.base import Batch, MapKind, Reasoner, State
from reason.rollout import StepRecord, unroll

SMALL_MAP = 128  # numbers in a row up to which a trace is exact


def joined(state: State) -> Tensor:
    """All numbers of a row side by side, (B, N)."""
    return torch.cat([z.flatten(1) for z in parts(state).values()], dim=1)


def radius(
    model: Reasoner, state: State, context: Context, kind: MapKind = "cycle", tolerance: float = 1e-3
) -> list[float]:
    """ρ(∂g/∂z) of g = model.map_inside(kind), row by row, by ARPACK to a relative `tolerance`.

    nan where it does not converge, or g(z) is not finite. Tens of Jacobian products a row, each three or four calls.
    """
    points = (_one_row(model, state, context, row, kind) for row in range(len(context.x)))
    return [
        abs(dominant_eigenvalue(f, z, tolerance, max_iterations=100)) if f(z).isfinite().all() else math.nan
        for f, z in points
    ]


def trace(model: Reasoner, state: State, context: Context, kind: MapKind = "cycle", probes: int = 16) -> list[float]:
    """tr(∂g/∂z)/N of g = model.map_inside(kind), row by row; below 1 the mean real part contracts.

    N counts the numbers of a row that lie inside. Exact up to 128 numbers, else Hutchinson's estimate with `probes`
    Rademacher probes.
    """
    found = []
    for row in range(len(context.x)):
        f, z = _one_row(model, state, context, row, kind)
        diagonal = exact_diagonal(f, z) if z.numel() <= SMALL_MAP else estimated_diagonal(f, z, probes)
        inside = context.rows(slice(row, row + 1)).mask
        found.append(diagonal.mean().item() / (1.0 if inside is None else inside.mean().item()))
    return found


def _one_row(
    model: Reasoner, state: State, context: Context, row: int, kind: MapKind
) -> tuple[Callable[[Tensor], Tensor], Tensor]:
    only = slice(row, row + 1)
    return model.map_inside(rows_of(state, only), context.rows(only), kind)


def perturbed(state: State, size: float, inside: Tensor | None = None) -> State:
    """z + size · ‖z‖ · u, u a random direction over all parts of a row together, 0 beyond the edge."""
    noise = mapped(state, lambda z: normal_like(z) if inside is None else normal_like(z) * inside)
    scale = size * norm(state) / norm(noise)
    return _along(state, noise, scale)


def _along(state: State, direction: State, scale: Tensor) -> State:
    return mapped(state, lambda z, d: z + scale.view(-1, *[1] * (z.ndim - 1)) * d, direction)


@torch.no_grad()
def perturb_and_return(model: Reasoner, state: State, context: Context, steps: int, size: float = 0.1) -> Tensor:
    """‖z'_k − z_k‖/‖z'_0 − z_0‖, (steps + 1, B): how far a pushed state is from the one left alone, k steps later.

    The push is `size` · ‖z‖ in a random direction. Towards 0 the state returns to where it would have gone.
    """
    pushed, distances = perturbed(state, size, context.mask), []
    for step in range(steps + 1):
        if step:
            state, pushed = model.step(state, context), model.step(pushed, context)
        distances.append(distance(state, pushed))
    return torch.stack(distances) / distances[0]


@torch.no_grad()
def growth_rate(model: Reasoner, state: State, context: Context, steps: int, size: float = 1e-6) -> Tensor:
    """The largest Lyapunov exponent, (B,): mean ln(‖δ_{k+1}‖/‖δ_k‖) of a small perturbation, per supervision step.

    Benettin's method: after every step the perturbation is brought back to size · ‖z‖ along its direction. Above 0
    neighbouring thoughts part; at a fixed point it nears ln ρ of the map `step`.
    """
    x, inside = context.x, context.mask
    pushed, total = perturbed(state, size, inside), torch.zeros(len(x), dtype=x.dtype, device=x.device)
    tiny = torch.finfo(x.dtype).tiny
    for _ in range(steps):
        before = distance(state, pushed)
        state, pushed = model.step(state, context), model.step(pushed, context)
        after = distance(state, pushed)
        total += (after / before.clamp(min=tiny)).clamp(min=tiny).log()
        if (after == 0).any():  # forgotten to the last bit: go on in a new direction
            lost, fresh = (after == 0).view(-1, 1, 1), perturbed(state, size, inside)
            pushed = mapped(fresh, lambda a, b, lost=lost: torch.where(lost, a, b), pushed)
            after = distance(state, pushed)
        away = mapped(state, lambda a, b: b - a, pushed)
        pushed = _along(state, away, size * norm(state) / after.clamp(min=tiny))
    return total / steps


@torch.no_grad()
def oscillation(model: Reasoner, state: State, context: Context) -> Tensor:
    """‖z^{i+2} − z^i‖/‖z^{i+1} − z^i‖ over the low state's updates i inside one supervision step, (updates − 1, B).

    Near 0 the low state jumps between two points (CMM fig. 6 expects it at equilibrium), near 2 it goes straight on.
    The low state is z_L; of a model without one, its last state. nan where it does not move at all.
    """
    name = list(parts(state))[-1]
    seen = [getattr(state, name)]
    for moved in model.path(state, context):
        if getattr(moved, name) is not seen[-1]:
            seen.append(getattr(moved, name))
    flat = [z.flatten(1) for z in seen]
    ratios = [
        torch.linalg.vector_norm(c - a, dim=1) / torch.linalg.vector_norm(b - a, dim=1)
        for a, b, c in zip(flat, flat[1:], flat[2:], strict=False)
    ]
    return torch.stack(ratios) if ratios else context.x.new_empty(0, len(context.x))


AT_ONCE = 2**25  # numbers of trajectories held in memory together: 256 MB in float64
LONGEST_PERIOD = 8
AT_REST = 1e-3  # residual up to which a trajectory's end is a fixed point
CLOSE = 0.1  # a cycle: after its period the state is back to within a tenth of one step's move (ours)


@dataclass(frozen=True)
class Trajectory:
    """One puzzle's way from the initial state through T supervision steps."""

    example: int
    solved: bool  # exact at step T
    end: str  # "right fixed point" | "wrong fixed point" | "cycle of P" | "drift" | "divergence"
    residual: list[float]  # T numbers: ‖z_k − z_{k−1}‖/‖z_{k−1}‖
    norm: list[float]  # T + 1 numbers, from the initial state on
    plane: list[tuple[float, float]]  # T + 1 points: principal components of this puzzle's own trajectory
    explained: tuple[float, float]  # share of the trajectory's variance along each


@torch.no_grad()
def trajectories(
    model: Reasoner,
    batch: Batch,
    examples: list[int],
    steps: int,
    tolerance: float = AT_REST,
    start: Callable[[Tensor], Callable[[State], State] | None] = lambda numbers: None,
    rules: Callable[[StepRecord], Tensor] | None = None,
) -> list[Trajectory]:
    """The trajectory of every row of the batch; `examples` are the rows' numbers in their set.

    start: of such numbers, what changes their initial states. rules: see `StepRecord`.

    A row ends in a fixed point where its last residual is at most `tolerance`; in a cycle of period P ≤ 8 where it
    is back at z_{T−P}, to within a tenth of its last move; it diverges where a number of its state is no longer finite;
    else it drifts, that is: it still moves (ours).
    """
    found: list[Trajectory] = []
    width = joined(model.initial_state(model.encode(_rows(batch, slice(0, 1))))).shape[1]
    rows = max(1, AT_ONCE // (width * (steps + 1)))
    for first in range(0, len(examples), rows):
        some = slice(first, first + rows)
        numbers = torch.tensor(examples[some])
        records = unroll(model, _rows(batch, some), steps, numbers, start=start(numbers), rules=rules)
        found += _measured(records, examples[some], tolerance)
    return found


def _rows(batch: Batch, rows: slice) -> Batch:
    return batch.each(lambda part: part[rows])


def _measured(records: Iterator[StepRecord], examples: list[int], tolerance: float) -> list[Trajectory]:
    points, residuals, sizes = [], [], []
    for record in records:
        for state in (record.before, record.state) if record.step == 1 else (record.state,):
            points.append(joined(state))
            sizes.append(norm(state))
        residuals.append(residual(record.before, record.state))
    exact = record.exact.tolist()
    path = torch.stack(points, dim=1)  # (B, T + 1, N)
    tame = (path.flatten(1).abs() < torch.finfo(path.dtype).max ** 0.25).all(1)  # its squares can be summed
    planes, shares = plane(torch.where(tame[:, None, None], path, 0))
    ends = [_end(solved, *row) for solved, row in zip(exact, _ends(path, tolerance), strict=True)]
    columns = (torch.stack(residuals, 1), torch.stack(sizes, 1))
    return [
        Trajectory(example, solved, end, list(r), list(n), [(a, b) for a, b in p], (s[0], s[1]))
        for example, solved, end, r, n, p, s in zip(
            examples, exact, ends, *(c.tolist() for c in columns), planes.tolist(), shares.tolist(), strict=True
        )
    ]


def plane(path: Tensor) -> tuple[Tensor, Tensor]:
    """Points (B, P, N) of each row -> their first two principal components (B, P, 2), shares of variance (B, 2).

    By the eigenvectors of the P × P matrix of inner products, since P is far below N.
    """
    centred = path - path.mean(dim=1, keepdim=True)
    values, vectors = torch.linalg.eigh(centred @ centred.transpose(1, 2))  # ascending
    values = values.clamp(min=0).flip(-1)
    if values.shape[1] < 2:
        values, vectors = (torch.nn.functional.pad(t, (0, 1)) for t in (values, vectors))
        return vectors * 0, values
    coordinates = vectors.flip(-1)[..., :2] * values[:, None, :2].sqrt()
    return coordinates, values[:, :2] / values.sum(-1, keepdim=True).clamp(min=torch.finfo(values.dtype).tiny)


def _ends(path: Tensor, tolerance: float) -> Iterator[tuple[str, int]]:
    """("fixed point" | "cycle" | "drift" | "divergence", period) of each row's points (B, P, N)."""
    last = path[:, -1]
    back = path[:, -min(path.shape[1], LONGEST_PERIOD + 1) :].flip(1)  # (B, ≤ 9, N): z_T, z_{T−1}, …
    distances = torch.linalg.vector_norm(back - last[:, None], dim=-1)
    scale = torch.linalg.vector_norm(path[:, -2], dim=-1)
    for row, size in zip(distances.tolist(), scale.tolist(), strict=True):
        period = next((p for p in range(2, len(row)) if row[p] <= CLOSE * row[1]), 0)
        if not math.isfinite(row[1]):
            yield "divergence", 0
        elif row[1] <= tolerance * size:
            yield "fixed point", 1
        else:
            yield ("cycle", period) if period else ("drift", 0)


def _end(solved: bool, kind: str, period: int) -> str:
    if kind == "fixed point":
        return f"{'right' if solved else 'wrong'} fixed point"
    return f"cycle of {period}" if kind == "cycle" else kind
