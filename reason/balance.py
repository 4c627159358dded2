"""Where loss terms become one scalar."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from reason.losses import LossWeights


def weighted_sum(terms: Mapping[str, Tensor], weights: LossWeights) -> Tensor:
    """Σ λ_n L_n with the configured λ."""
    return torch.stack([getattr(weights, name) * loss for name, loss in terms.items()]).sum()
