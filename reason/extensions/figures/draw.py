"""Draws six figures, each into an empty matplotlib Figure; states and Jacobians are in float64."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import mpmath  # type: ignore[import-untyped]  # comes with torch
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from reason.api import Run
from reason.dynamics.jacobian import Map, jvp
from reason.losses.repulsion import repulsion as repulsion_loss
from reason.models.base import Batch, Reasoner
from reason.models.mapped import with_maps
from reason.models.states import precise, rows_of
from reason.plugins import extension
from reason.rollout import StepRecord, unroll
from reason.training.checkpoint import load_into, readable, step_of

EIGENVALUES = 24
DIGITS = 400  # precision of the Routh array: terms of 128 rows cancel to hundreds of digits
GRID = 13  # points of a phase portrait along each axis
SHOWN = 4  # panels: supervision steps, or checkpoints
POINTS, DESCENT, RATE = 60, 400, 0.5  # points in the illustration of repulsion


def _first_records(run: Run, batch: Batch, steps: int) -> list[StepRecord]:
    """Return records of the first puzzle, in float64, at steps 1, 4, 16, … and the last."""
    drawn = {4**k for k in range(SHOWN - 1)} | {steps}
    records = unroll(precise(run.model), batch.each(lambda part: part[:1]), steps)
    return [record for record in records if record.step in drawn]


def spectrum(figure: Figure, runs: Sequence[Run], batches: Sequence[Batch], steps: int) -> None:
    """Draw the largest eigenvalues of ∂g/∂z, g one cycle, at the first puzzle's states, and the unit circle."""
    probes, records = extension("studies", "probes"), _first_records(runs[0], batches[0], steps)
    figure.set_size_inches(3.2 * len(records), 3.6)
    every = figure.subplots(1, len(records), sharex=True, sharey=True, squeeze=False)[0]
    circle = np.exp(2j * np.pi * np.linspace(0, 1, 200))
    for axes, record in zip(every, records, strict=True):
        f, z = with_maps(record.model).map_inside(record.state, record.context, "cycle")
        values = probes.eigenvalues(f, z, EIGENVALUES, 1e-4)
        axes.plot(circle.real, circle.imag, color="grey", lw=0.8)
        axes.plot(values.real, values.imag, "o", ms=4)
        radius = max(np.abs(values), default=math.nan)
        axes.set(title=f"step {record.step}: ρ = {radius:.3f}", aspect="equal", xlabel="Re λ")
    every[0].set_ylabel("Im λ")


def determinants(figure: Figure, runs: Sequence[Run], batches: Sequence[Batch], steps: int) -> None:
    """Draw log₁₀|Δ_k/Δ_{k−1}| of J − I, J the Jacobian (D, D) of a cell's z_H under F_H; crosses at Δ_k < 0."""
    figure.set_size_inches(6.5, 4)
    axes = figure.subplots()
    for record in _first_records(runs[0], batches[0], steps):
        f, z = with_maps(record.model).map_inside(record.state, record.context, "f_h")
        logs, signs = log_determinants(cell_jacobian(f, z, getattr(record.context.layout, "prefix", 0)))
        logs, k = np.diff(logs, prepend=0), np.arange(1, len(logs) + 1)
        (line,) = axes.plot(k, logs, lw=1, label=f"step {record.step}: {(signs < 0).sum()} of {len(k)} negative")
        axes.plot(k[signs < 0], logs[signs < 0], "x", color=line.get_color(), ms=5)
    axes.set(xlabel="k", ylabel="log₁₀ |Δₖ/Δₖ₋₁| of the first cell", title="Routh-Hurwitz (stable: all positive)")
    axes.legend(frameon=False)


def log_determinants(jacobian: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return log₁₀|Δ_k| and the signs of Δ_k, k = 1 … N, of J − I's characteristic polynomial (leading coefficient 1).

    A fixed point of dz/dt = F(z) − z is stable if all eigenvalues of J − I are in the left half-plane. This holds if
    and only if all N determinants are positive (Routh-Hurwitz criterion, CMM eq. 24 to 29). CMM penalises tr J / N ≥ 1,
    that is Δ₁ = N − tr J ≤ 0: Δ₁ > 0 is necessary, not sufficient.

    The first column of the Routh array 1, r₁, …, r_K gives Δ_k = r₁ ⋯ r_k. CMM's eq. 25 has the polynomial times (−1)ᴷ;
    the criterion needs a positive leading coefficient (ours).
    """
    eigenvalues = np.linalg.eigvals(np.asarray(jacobian, dtype=np.float64) - np.eye(len(jacobian)))
    with mpmath.workdps(DIGITS):
        tiny = mpmath.mpf(10) ** -DIGITS
        polynomial = np.poly(np.array([mpmath.mpc(root) for root in eigenvalues], dtype=object))
        coefficients = np.array([mpmath.re(each) for each in polynomial], dtype=object)  # roots come in conjugate pairs
        above, row = coefficients[::2], coefficients[1::2]
        column = []
        for _ in eigenvalues:
            row = np.concatenate([row, [mpmath.mpf(0)] * (len(above) - len(row))])
            column.append(row[0] or tiny)
            above, row = row, above[1:] - above[0] * row[1:] / column[-1]
            row = row if len(row) else np.array([tiny], dtype=object)
        logs = np.cumsum([mpmath.log10(abs(first)) for first in column])
        return logs.astype(np.float64), np.cumprod(np.sign([float(mpmath.sign(first)) for first in column]))


@torch.no_grad()
def portrait(figure: Figure, runs: Sequence[Run], batches: Sequence[Batch], steps: int) -> None:
    """Draw F_H(z_H + z_L) − z_H on a plane of z_H through the first puzzle's last state, at up to four checkpoints.

    The plane is spanned by the two widest directions of the trajectories of all puzzles at the newest checkpoint.
    """
    model = precise(runs[0].model)
    folders = list(readable(runs[0].directory))[::-1]
    chosen = [folders[i] for i in sorted({round(i) for i in np.linspace(0, len(folders) - 1, SHOWN)})]
    figure.set_size_inches(3.4 * len(chosen), 3.6)
    plane = _plane(_high_states(model, batches[0], steps).flatten(0, 1))
    for axes, folder in zip(figure.subplots(1, len(chosen), squeeze=False)[0], chosen, strict=True):
        load_into(model, folder, runs[0].weights)
        path = _high_states(model, batches[0], steps)
        record = next(r for r in unroll(model, batches[0], steps) if r.step == steps)
        origin = path[0, -1]
        ways = (path - origin) @ plane  # (B, T + 1, 2)
        reach = ways.abs().max().item() or 1.0
        ticks = torch.linspace(-reach, reach, GRID, dtype=origin.dtype)
        grid = torch.cartesian_prod(ticks, ticks)  # (GRID², 2)
        same = torch.zeros(len(grid), dtype=torch.long)
        state, context = rows_of(record.state, same), record.context.rows(same)
        f, z = with_maps(model).map_inside(state, context, "f_h")
        points = (origin + grid @ plane.T).view_as(z)
        speed = (f(points) - points).flatten(1) @ plane
        axes.quiver(*grid.T, *speed.T, angles="xy", color="grey", width=0.003)
        _lines(axes, ways)
        axes.plot(0, 0, "k*", ms=8)
        axes.set(title=f"optimizer step {step_of(folder)}", xlabel="first direction")
    figure.axes[0].set_ylabel("second direction of z_H")


@torch.no_grad()
def trajectories(figure: Figure, runs: Sequence[Run], batches: Sequence[Batch], steps: int) -> None:
    """Draw the high states of several runs in one panel each, with one scale, and one plane for states of one size."""
    paths = [_high_states(precise(run.model), batch, steps) for run, batch in zip(runs, batches, strict=True)]
    figure.set_size_inches(3.4 * len(runs), 3.6)
    every = figure.subplots(1, len(runs), sharex=True, sharey=True, squeeze=False)[0]
    for axes, run, path in zip(every, runs, paths, strict=True):
        alike = [other.flatten(0, 1) for other in paths if other.shape[-1] == path.shape[-1]]
        centre = torch.cat(alike).mean(0)
        _lines(axes, (path - centre) @ _plane(torch.cat(alike)))
        axes.set(title=run.directory.name, xlabel="first principal component")
    every[0].set_ylabel("second, of all runs")


@torch.no_grad()
def jumps(figure: Figure, runs: Sequence[Run], batches: Sequence[Batch], steps: int) -> None:
    """Draw states: left, each puzzle keeps its row; right, every second step replaces one puzzle (carry=handover)."""
    model = precise(runs[0].model)
    kept, handed = _high_states(model, batches[0], steps), _high_states(model, batches[0], steps, every=2)[:1]
    flat = torch.cat([kept.flatten(0, 1), handed.flatten(0, 1)])
    centre, plane = flat.mean(0), _plane(flat)
    figure.set_size_inches(9, 4.2)
    titles = ("(a) each puzzle keeps its row", "(b) every second step a new puzzle")
    for axes, rows, title in zip(figure.subplots(1, 2, sharex=True, sharey=True), (kept, handed), titles, strict=True):
        _lines(axes, (rows - centre) @ plane)
        axes.plot(*((kept[:, -1] - centre) @ plane).T, "kx", zorder=3)
        axes.set(title=title, xlabel="first principal component of z_H", ylabel="second")


def repulsion(figure: Figure, runs: Sequence[Run], batches: Sequence[Batch], steps: int) -> None:
    """Draw points of a narrow cone and their directions, before and after descent on the repulsion (eq. 33, 34)."""
    start = torch.tensor([2.0, 1.0, 1.5]) + 0.4 * torch.randn(POINTS, 3)
    end, everyone = repelled(start), torch.ones(POINTS, dtype=torch.bool)
    figure.set_size_inches(13, 6.5)
    for column, (when, points) in enumerate((("before", start), ("after", end))):
        unit = torch.nn.functional.normalize(points, dim=1)
        for place, (title, shown) in enumerate((("hidden representations", points), ("directions", unit)), start=1):
            axes = figure.add_subplot(2, 4, 2 * column + place, projection="3d")
            axes.scatter(*shown.T.numpy(), s=8, c=range(POINTS))
            axes.set_title(f"{title} {when}", fontsize=9)
        cosines = (unit @ unit.T)[tuple(torch.triu_indices(POINTS, POINTS, 1))]
        axes = figure.add_subplot(2, 4, (5 + 2 * column, 6 + 2 * column))
        axes.hist(cosines.numpy(), bins=60, range=(-1, 1))
        axes.set(xlabel="cosine of a pair", ylabel="pairs")
        axes.set_title(f"cosines of pairs {when}: repulsion {repulsion_loss(points, everyone).item():.3f}", fontsize=9)


def repelled(points: Tensor, steps: int = DESCENT, rate: float = RATE) -> Tensor:
    """Return points (n, d) after gradient descent on their repulsion."""
    everyone = torch.ones(len(points), dtype=torch.bool)
    for _ in range(steps):
        points = points.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(len(points) * repulsion_loss(points, everyone), points)
        points = points.detach() - rate * gradient
    return points


@torch.no_grad()
def cell_jacobian(f: Map, z: Tensor, cell: int) -> np.ndarray:
    """Return ∂f(z)/∂z (D, D) of one position of a single row z (1, S', D), with the others fixed."""
    directions = torch.zeros(z.shape[-1], *z.shape[1:], dtype=z.dtype)
    directions[:, cell] = torch.eye(z.shape[-1], dtype=z.dtype)
    return torch.stack([jvp(f, z, direction[None])[0, cell] for direction in directions], dim=1).numpy()


def _high_states(model: Reasoner, batch: Batch, steps: int, every: int | None = None) -> Tensor:
    """Return the readout's part of the state, of each row before and after each step, (B, steps + 1, N).

    With `every`, each row gets the next puzzle after so many steps, and the states are kept.
    """
    state = model.initial_state(model.encode(batch))
    seen = [state[0]]
    for step in range(steps):
        shift = 0 if every is None else step // every
        state = model.step(state, model.encode(batch.each(partial(torch.roll, shifts=-shift, dims=0))))
        seen.append(state[0])
    return torch.stack([z.flatten(1) for z in seen], dim=1)


def _plane(points: Tensor) -> Tensor:
    """Return the two widest directions (N, 2) of points (P, N)."""
    return torch.linalg.svd(points - points.mean(0), full_matrices=False).Vh[:2].T


def _lines(axes: Axes, ways: Tensor) -> None:
    """Draw a line for each row of (B, T, 2), from a circle to a square."""
    for way in ways.numpy():
        (line,) = axes.plot(*way.T, ".-", ms=3, lw=0.9)
        axes.plot(*way[0], "o", mfc="none", color=line.get_color(), ms=6)
        axes.plot(*way[-1], "s", color=line.get_color(), ms=4)
