"""Where loss terms become one scalar."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor


def weighted_sum(terms: Mapping[str, Tensor], weights: Mapping[str, float]) -> Tensor:
    """Σ λ_n L_n."""
    return torch.stack([weights[name] * loss for name, loss in terms.items()]).sum()
