"""Adam-atan2: Adam whose quotient is an arctangent (Everett et al. 2024), as HRM, TRM and CMM train with."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

BiasCorrection = Literal["inside", "outside"]


class AdamAtan2(torch.optim.Optimizer):
    """p ← p(1 − lr·wd) − lr·a·atan2(m̂, √v̂ + ε), moments m, v as Adam's, m̂ = m/(1 − β₁ᵗ), v̂ = v/(1 − β₂ᵗ).

    With ε = 0 and the correction inside, the update is that of the package adam-atan2-pytorch, which CMM cites, to the
    bit; `build_optimizer` then takes the package. Its state has the same names. Two forms are ours alone:

    - ε: atan2 needs none, yet CMM's tables 8 to 11 tune one; it is added where Adam has it (ours).
    - bias_correction "outside", as the fused CUDA package of HRM and TRM has it:
      p ← p(1 − lr·wd) − lr·a/(1 − β₁ᵗ)·atan2(m, √v̂ + ε). For small quotients the two agree; the first step, whose
      quotient is 1, is 27 % larger, after 40 steps of one gradient the difference is less than 1 %.
    """

    def __init__(
        self,
        parameters: list[nn.Parameter],
        lr: float,
        betas: tuple[float, float],
        weight_decay: float,
        eps: float = 0.0,
        a: float = 1.0,
        bias_correction: BiasCorrection = "inside",
    ):
        super().__init__(parameters, {"lr": lr, "betas": betas, "weight_decay": weight_decay, "eps": eps, "a": a})
        self.outside = bias_correction == "outside"

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """One update of every parameter that has a gradient."""
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self._move(p, p.grad, group)

    def _move(self, p: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        # One parameter after the other: lists of tensors (foreach) leave the cache between two operations.
        state, lr, (beta1, beta2) = self.state[p], group["lr"], group["betas"]
        if not state:
            state |= {"steps": 0, "exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p)}
        state["steps"] += 1
        correction = 1 / (1 - beta1 ** state["steps"])
        first = state["exp_avg"].lerp_(gradient, 1 - beta1)
        second = state["exp_avg_sq"].lerp_(gradient * gradient, 1 - beta2)
        size = second.mul(1 / (1 - beta2 ** state["steps"])).sqrt_().add_(group["eps"])
        angle = first.mul(1.0 if self.outside else correction).atan2_(size)
        p.mul_(1 - lr * group["weight_decay"])
        p.add_(angle, alpha=-lr * group["a"] * (correction if self.outside else 1.0))


def fused_adam_atan2() -> type[torch.optim.Optimizer] | None:
    """AdamATan2 of the CUDA package `adam-atan2`, which HRM and TRM train with; None where it cannot be imported.

    Its update is that of `AdamAtan2` with the correction outside, ε = 0 and a = 1.
    """
    try:
        from adam_atan2 import AdamATan2
    except ImportError:
        return None
    return AdamATan2
