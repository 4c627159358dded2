"""Weights of the loss terms in the total loss: fixed, or adapted by AlgGradNorm (CMM eq. 50-56)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor

from reason.settings.base import BaseConfig, When

if TYPE_CHECKING:
    from reason.config.schema import Config

Gradient = Callable[[Tensor], Sequence[Tensor]]  # a loss ↦ its gradient in w, unscaled; empty if none reaches w
Mean = Callable[[Tensor], Tensor]
MEASURED = When("kind", "alg-grad-norm")
TINY = 1e-12  # a term is active if its loss and its gradient norm exceed this


class BalanceConfig(BaseConfig):
    """The choice of the weights λ."""

    kind: Literal["fixed", "alg-grad-norm"] = Field(
        "fixed",
        description="fixed: λ = loss.weights; alg-grad-norm: λ starts at 1 and is adapted so that the gradients of all "
        "terms get the same norm (loss.weights then only selects the terms)",
    )
    targets: Annotated[dict[str, Annotated[float, Field(gt=0)]], MEASURED] = Field(
        {},
        description='alg-grad-norm: c_n, target gradient norm of a term, relative to the mean, as {"lm": 10}; else 1',
    )
    alpha: Annotated[float, MEASURED] = Field(
        0.25, ge=0, description="α: how much λ grows for a term whose loss falls slowly"
    )
    every: Annotated[int, MEASURED] = Field(
        1, ge=1, description="measure the gradients of one supervision step in this many optimizer steps"
    )


class AlgGradNorm:
    """Adapts λ so that G_n = λ_n ‖∇_w L_n‖ approaches c_n · mean(G) · r_n^α (CMM eq. 51-56).

    A term is active if L_n and g_n are finite and exceed 1e-12. Inactive terms keep λ_n and do not count in N and the
    means (ours). One update, with g_n = ‖∇_w L_n‖₂ of one supervision step (`is_measured` says which):
        G_n = λ_n g_n,  r_n = (L_n/L_n(0)) / mean(L/L(0)),  target_n = c_n · mean(G) · r_n^α
        λ'_n = λ_n · clamp(target_n/(G_n + ε), 0.1, 10),  λ̂ = λ' · N/Σλ',  λ ← ρλ + (1 − ρ)λ̂
    L_n(0) is set when a term first becomes active, and every T_reset steps blends toward the present loss (ours).
    λ(0) = 1 for every term (ours: with CMM's stated weights, repulsion in x̂ has 95 % of the gradient in the first
    steps). A schedule scales c_n, since updates would override it in λ; a term whose factor is 0 is not evaluated
    (ours). Everything stays on the device: no update waits for it.
    """

    RHO = 0.9  # ρ, the share of the old λ kept at each update (ours, as the two below: CMM states no value)
    RESET_EVERY = 1000  # T_reset, optimizer steps between soft resets
    RESET_BLEND = 0.5  # the share of the present loss that enters L(0) then
    NAMES = ("weight", "norm", "rate")  # λ, G and r in the metrics

    def __init__(self, config: Config, device: torch.device):
        self.config = config.balance
        self.loss = config.loss
        self.steps = config.training.steps
        self.terms = config.loss.present
        self.window = config.balance.every * config.rollout.grad_steps  # supervision steps between two updates
        targets = [self.config.targets.get(name, 1.0) for name in self.terms]
        self.target = torch.tensor(targets, dtype=torch.float32, device=device)  # c
        self.weight = torch.ones_like(self.target)  # λ
        self.reference = torch.zeros_like(self.weight)  # L(0), 0 until a term is first active
        self.norm = torch.zeros_like(self.weight)  # G
        self.rate = torch.zeros_like(self.weight)  # r
        self.updated = 0  # the optimizer step of the last update

    def weights(self, names: Iterable[str]) -> dict[str, Tensor]:
        """Return λ of the named terms."""
        now = self.weight.clone()  # an update within this step changes λ for the next one
        return {name: now[self.terms.index(name)] for name in names}

    def update(self, step: int, terms: Mapping[str, Tensor], gradient: Gradient, mean: Mean = lambda x: x) -> None:
        """Measure one supervision step's terms and update λ; the graph of each term must still exist.

        `mean` is over processes: λ is the same in all.
        """
        zero = torch.zeros((), device=self.weight.device)
        losses = mean(torch.stack([terms[name].detach() if name in terms else zero for name in self.terms]))
        gradients = [list(map(mean, gradient(terms[name]))) if name in terms else [] for name in self.terms]
        norms = torch.stack([torch.nn.utils.get_total_norm(parts) if parts else zero for parts in gradients])
        shares = self.loss.shares_at(step, self.steps)
        share = torch.tensor([shares[name] for name in self.terms]).to(self.weight, non_blocking=True)
        reset = step // self.RESET_EVERY > self.updated // self.RESET_EVERY
        self._move(losses, norms, self.target * share, reset)
        self.updated = step

    @torch.no_grad()
    def _move(self, losses: Tensor, norms: Tensor, target: Tensor, reset: bool) -> None:
        # A satisfied loss (a ReLU term at 0, BCE at first) has no gradient to weigh: its factor would be infinite.
        active = (losses > TINY) & (norms > TINY) & torch.isfinite(losses) & torch.isfinite(norms)
        fresh = active & (self.reference == 0)
        self.reference = torch.where(fresh, losses, self.reference)
        if reset:
            blended = torch.lerp(self.reference, losses, self.RESET_BLEND)
            self.reference = torch.where(active, blended, self.reference)
        count = active.sum().clamp(min=1)

        def mean(values: Tensor) -> Tensor:
            return torch.where(active, values, 0.0).sum() / count

        self.norm = torch.where(active, self.weight * norms, 0.0)  # G
        fallen = torch.where(active, losses / self.reference, 0.0)
        self.rate = fallen / mean(fallen).clamp(min=TINY)  # r
        aim = target * mean(self.norm) * self.rate**self.config.alpha
        moved = self.weight * (aim / (self.norm + TINY)).clamp(0.1, 10.0)
        moved = moved * count / torch.where(active, moved, 0.0).sum().clamp(min=TINY)
        # In place: a captured step uses the memory that λ had at the capture.
        self.weight.copy_(torch.where(active, torch.lerp(moved, self.weight, self.RHO), self.weight))

    def metrics(self) -> dict[str, float]:
        """Return λ, G and r of the last update as weight/TERM, norm/TERM and rate/TERM (this waits for the device)."""
        return {
            f"{kind}/{name}": value
            for kind in self.NAMES
            for name, value in zip(self.terms, getattr(self, kind).tolist(), strict=True)
        }

    def state_dict(self) -> dict[str, Any]:
        """Return λ, L(0), the metrics, and the step of the last update."""
        figures = {kind: getattr(self, kind) for kind in self.NAMES}
        return {"terms": self.terms, "reference": self.reference, "updated": self.updated, **figures}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from saved weights."""
        assert state["terms"] == self.terms, "a run resumes with its own config"
        self.updated = state["updated"]
        for name in ("reference", *self.NAMES):
            setattr(self, name, state[name].to(self.weight.device))


def is_measured(index: int, window: int, period: int) -> bool:
    """Return whether supervision step number `index` (from 0) is the measured one of its window.

    If rows take their steps in phase, steps `index` and `index` + `period` (the number of sets times N_super) are the
    same m of the same set, and always measuring the first step of a window could measure only m = 1. So the measured
    place moves by one after the windows have begun at every place of the period: each m of each set is measured equally
    often in lcm(window, period) updates (ours: the paper does not say at which segment it measures).
    """
    number, place = divmod(index, window)
    beginnings = period // math.gcd(window, period)
    return place == number // beginnings % window
