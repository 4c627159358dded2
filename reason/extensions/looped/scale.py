"""The norm penalty of the readout blind spot (docs/math.md §14)."""

from __future__ import annotations

import torch
from torch import Tensor

from reason.rollout import Unroll


def norm_penalty(unroll: Unroll) -> Tensor:
    """K⁻¹ Σ_k E‖h_k‖²_rms over the K states of the backward pass, ‖h‖²_rms = ‖h‖²/D of a token (blind spot §3).

    E is over active rows, tokens and, where a state has several parts, parts (ours).
    """
    sizes = [z.float().square().mean(dim=(1, 2)) for state in unroll.states for z in state]  # each (B,)
    return unroll.row_mean(torch.stack(sizes).mean(0))
