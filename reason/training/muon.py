"""Muon for the matrices of a network, AdamW for the rest, as one optimizer."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # a, b, c: steep at 0, so that few iterations do
ITERATIONS = 5
MOMENTUM = 0.95


def orthogonalized(matrices: Tensor) -> Tensor:
    """(n, r, c) UΣVᵀ -> UΣ'Vᵀ, Σ' from 0.68 to 1.21, less where σ < 0.0015‖Σ‖: five Newton-Schulz iterations.

    X ← aX + (bA + cA²)X with A = XXᵀ, from X of Frobenius norm 1 (Keller Jordan 2024). In the type of the matrices:
    `torch.optim.Muon` computes in bfloat16, which most CPUs only emulate.
    """
    a, b, c = COEFFICIENTS
    tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.mT if tall else matrices
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)
    for _ in range(ITERATIONS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x


class Muon(torch.optim.Optimizer):
    """m ← μm + (1 − μ)g; p ← p(1 − lr·wd) − lr·√max(1, rows/columns)·UVᵀ, UΣVᵀ = (1 − μ)g + μm; μ 0.95.

    Matrices of one shape are orthogonalized together.
    """

    def __init__(self, matrices: Sequence[nn.Parameter], lr: float, weight_decay: float):
        super().__init__(matrices, {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One update of every matrix that has a gradient."""
        assert closure is None
        (group,) = self.param_groups
        alike: dict[torch.Size, list[tuple[Tensor, Tensor]]] = {}
        for matrix in group["params"]:
            if matrix.grad is not None:
                alike.setdefault(matrix.shape, []).append((matrix, matrix.grad))
        for (rows, columns), pairs in alike.items():
            matrices, gradients = zip(*pairs, strict=True)
            moments = [self._momentum(matrix) for matrix in matrices]
            torch._foreach_lerp_(moments, gradients, 1 - MOMENTUM)
            updates = orthogonalized(torch.stack(torch._foreach_lerp(gradients, moments, MOMENTUM)))
            torch._foreach_mul_(matrices, 1 - group["lr"] * group["weight_decay"])
            step = group["lr"] * math.sqrt(max(1, rows / columns))
            torch._foreach_add_(matrices, list(updates.unbind()), alpha=-step)

    def _momentum(self, matrix: Tensor) -> Tensor:
        state = self.state[matrix]
        if not state:
            state["momentum_buffer"] = torch.zeros_like(matrix)
        momentum: Tensor = state["momentum_buffer"]
        return momentum


class MuonAdamW(torch.optim.Optimizer):
    """Muon, and AdamW for all else that is trained: embeddings, heads, vectors (Keller Jordan 2024).

    Both parts share this optimizer's groups and state: group 0 is Muon's.
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
            Muon(matrices, muon_lr, weight_decay),
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
