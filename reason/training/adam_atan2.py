"""Adam-atan2 with an epsilon, which CMM tunes and adam-atan2-pytorch lacks."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class AdamAtan2WithEpsilon(torch.optim.Optimizer):
    """p ← p(1 − lr·wd) − lr·atan2(m̂, √v̂ + ε), moments as Adam's, no factor in front (a = 1).

    atan2 needs no ε, yet CMM's tables 8 to 11 tune one: it is added to √v̂ as in Adam (ours). With ε = 0 this is the
    library's update, and its state has the same names.
    """

    def __init__(self, parameters: list[nn.Parameter], lr: float, betas: tuple[float, float], eps: float, wd: float):
        super().__init__(parameters, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": wd})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """One update of every parameter that has a gradient."""
        for group in self.param_groups:
            moved = [p for p in group["params"] if p.grad is not None]
            for p in moved:
                if not self.state[p]:
                    self.state[p] = {"steps": 0, "exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p)}
                self.state[p]["steps"] += 1
            for steps in {self.state[p]["steps"] for p in moved}:  # a parameter without a gradient falls behind
                self._move([p for p in moved if self.state[p]["steps"] == steps], steps, group)

    def _move(self, parameters: list[Tensor], steps: int, group: dict[str, Any]) -> None:
        lr, eps, (beta1, beta2) = group["lr"], group["eps"], group["betas"]
        gradients = [p.grad for p in parameters if p.grad is not None]
        first = [self.state[p]["exp_avg"] for p in parameters]
        second = [self.state[p]["exp_avg_sq"] for p in parameters]
        torch._foreach_lerp_(first, gradients, 1 - beta1)
        torch._foreach_lerp_(second, torch._foreach_mul(gradients, gradients), 1 - beta2)
        size = torch._foreach_mul(second, 1 / (1 - beta2**steps))
        torch._foreach_sqrt_(size)
        torch._foreach_add_(size, eps)
        mean = torch._foreach_mul(first, 1 / (1 - beta1**steps))
        if group["weight_decay"] > 0:
            torch._foreach_mul_(parameters, 1 - lr * group["weight_decay"])
        torch._foreach_add_(parameters, [m.atan2_(s) for m, s in zip(mean, size, strict=True)], alpha=-lr)
