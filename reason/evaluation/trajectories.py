"""Whole trajectories: where each ends (docs/math.md §17), and its path in the plane that holds most of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from reason.evaluation.probes import joined, norm, residual
from reason.models.base import Batch, Reasoner, State
from reason.models.record import StepRecord
from reason.rollout import unroll

AT_ONCE = 2**25  # numbers of trajectories held in memory together: 256 MB in float64
LONGEST_PERIOD = 8
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
    tolerance: float = 1e-3,
    start: Callable[[Tensor], Callable[[State], State] | None] = lambda numbers: None,
) -> list[Trajectory]:
    """The trajectory of every row of the batch; `examples` are the rows' numbers in their set.

    start: of such numbers, what changes their initial states.

    A row ends in a fixed point where its last residual is at most `tolerance`; in a cycle of period P ≤ 8 where it
    is back at z_{T−P}, to within a tenth of its last move; it diverges where a number of its state is no longer finite;
    else it drifts, that is: it still moves (ours).
    """
    found: list[Trajectory] = []
    width = joined(model.initial_state(model.encode(_rows(batch, slice(0, 1))))).shape[1]
    rows = max(1, AT_ONCE // (width * (steps + 1)))
    for first in range(0, len(examples), rows):
        some = slice(first, first + rows)
        course = unroll(model, _rows(batch, some), steps, start=start(torch.tensor(examples[some])))
        found += _measured(course, examples[some], tolerance)
    return found


def _rows(batch: Batch, rows: slice) -> Batch:
    return Batch(*(part[rows] for part in batch))


def _measured(course: Iterator[StepRecord], examples: list[int], tolerance: float) -> list[Trajectory]:
    points, residuals, sizes = [], [], []
    for record in course:
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
