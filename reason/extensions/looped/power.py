"""Power iteration with Jacobian products: how much a map makes a perturbation grow (docs/math.md §10)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from reason.dynamics.integrate import normal_like
from reason.dynamics.jacobian import Map, Product, jvp


def unit_normal_like(z: Tensor) -> Tensor:
    """Random directions, each row of Euclidean norm 1, shaped as z."""
    v = normal_like(z)
    return v / row_norm_keepdim(v)


def row_norm_keepdim(z: Tensor) -> Tensor:
    """‖z‖₂ of each row, (B, 1, ...), so that it divides z."""
    return torch.linalg.vector_norm(z.flatten(1), dim=1).view(-1, *[1] * (z.ndim - 1))


class PowerIteration(NamedTuple):
    """The last product's norm ‖J v‖, (B,), and its direction, shaped as z and detached."""

    growth: Tensor
    direction: Tensor


def power_iteration(f: Map, z: Tensor, v: Tensor, iterations: int, product: Product = jvp) -> PowerIteration:
    """`iterations` times j = J v, v ← j/‖j‖ from unit directions v; the gradient flows through the last product alone.

    The growth nears |λ₁| of each row where a real eigenvalue dominates. With one iteration and random v its square
    is a Frobenius estimate, E‖J v‖² = ‖J‖²_F/N, not a spectral radius.
    """
    for _ in range(iterations - 1):
        with torch.no_grad():
            v = _unit(product(f, z, v))
    j = product(f, z, v.detach())
    return PowerIteration(row_norm_keepdim(j).flatten(), _unit(j.detach()))


def _unit(j: Tensor) -> Tensor:
    return j / row_norm_keepdim(j).clamp(min=torch.finfo(j.dtype).tiny)
