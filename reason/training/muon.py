"""Muon for the matrices of a network, AdamW for the rest, as one optimizer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn


class MuonAdamW(torch.optim.Optimizer):
    """Muon: m ← μm + (1 − μ)g; p ← p(1 − lr·wd) − lr·√max(1, rows/columns)·UVᵀ, UΣVᵀ = (1 − μ)g + μm.

    μ 0.95. UVᵀ, the nearest matrix with singular values 1, is that of five Newton-Schulz iterations
    (`torch.optim.Muon`; Keller Jordan 2024). All else that is trained, embeddings, heads and vectors, is AdamW's, as
    there. Both parts share this optimizer's groups and state: group 0 is Muon's.
    """

    def __init__(
        self,
        matrices: Sequence[nn.Parameter],
        others: Sequence[nn.Parameter],
        muon_lr: float,
        lr: float,
        betas: tuple[float, float],
        eps: float,
        weight_decay: float,
    ):
        self.parts = (
            torch.optim.Muon(matrices, lr=muon_lr, weight_decay=weight_decay),
            torch.optim.AdamW(others, lr, betas, eps, weight_decay),
        )
        groups = [part.param_groups[0] | {"initial_lr": part.param_groups[0]["lr"]} for part in self.parts]
        super().__init__(groups, {})
        self._share()

    def _share(self) -> None:
        for part, group in zip(self.parts, self.param_groups, strict=True):
            part.param_groups, part.state = [group], self.state

    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One update of both parts."""
        assert closure is None
        for part in self.parts:
            part.step()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from saved moments."""
        super().load_state_dict(state_dict)
        self._share()
