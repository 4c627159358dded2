"""Repulsion losses: squared cosine between the states of different puzzles (CMM eq. 33-34; docs/math.md §5)."""

from __future__ import annotations

import torch
from torch import Tensor

from reason.nn.dtypes import at_least_float32
from reason.rollout import SupervisionStep


def repulsion_x(step: SupervisionStep) -> Tensor:
    """Return the repulsion of the encoded puzzles x̂, at the cells only (ours); a scalar."""
    return repulsion(step.cells(step.context.x), step.active)


def repulsion_z(step: SupervisionStep) -> Tensor:
    """Return the repulsion of the high states z_H at the end of the supervision step."""
    return repulsion(step.cells(step.states[-1][0]), step.active)


def repulsion(z: Tensor, active: Tensor) -> Tensor:
    """Return the mean of ⟨u_i, u_j⟩² over pairs i ≠ j of active rows, u = z/‖z‖₂ with each row flattened; a scalar.

    z (B, ...), active (B,) bool. The batch is that of one device (ours). 0 without a pair.
    """
    u = torch.nn.functional.normalize(at_least_float32(z).flatten(1), dim=1)  # (B, M)
    counted = active.to(u.dtype)
    pairs = (counted[:, None] * counted[None, :]).fill_diagonal_(0)
    return (pairs * (u @ u.T).square()).sum() / pairs.sum().clamp(min=1)
