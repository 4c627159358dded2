"""Steps of the SDE dz = (F(z) − z)dt + σ dW (CMM eq. 47 and 48; docs/math.md §2)."""

from __future__ import annotations

import torch
from torch import Tensor


def euler_maruyama(z: Tensor, f: Tensor, dt: float, sigma: float, zeta: Tensor | None = None) -> Tensor:
    """Return z + Δt(f − z) + √Δt·σ·ζ with f = F(z); shapes as z. The strong order is 1.

    ζ ~ N(0, I) is drawn from the default generator unless it is given; σ = 0 draws nothing.
    """
    moved = f if dt == 1.0 else z + dt * (f - z)
    if sigma == 0.0:
        return moved
    return moved + (sigma * dt**0.5) * (normal_like(f) if zeta is None else zeta)


def normal_like(z: Tensor) -> Tensor:
    """Draw N(0, 1) in z's shape, type and device, independent of z's memory layout.

    The numbers of `torch.randn_like` depend on the layout, and on a CPU it draws those of a transposed tensor one by
    one, seven times as slowly.
    """
    return torch.randn(z.shape, dtype=z.dtype, device=z.device)
