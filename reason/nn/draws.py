"""Normal draws that do not depend on the order of memory."""

from __future__ import annotations

import torch
from torch import Tensor


def normal_like(z: Tensor) -> Tensor:
    """N(0, 1) in z's shape, type and device, whatever the order of z in memory.

    `torch.randn_like` follows that order: its numbers depend on it, and on a CPU those of a transposed tensor are drawn
    one by one, seven times as slowly.
    """
    return torch.randn(z.shape, dtype=z.dtype, device=z.device)
