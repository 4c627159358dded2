"""Optimizers: Adam-atan2, AdamW or Muon for the weights, sign-SGD for the puzzle embeddings behind them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import adam_atan2_pytorch
import torch
from pydantic import Field
from torch import Tensor, nn

from reason.models.base import Reasoner
from reason.settings.base import BaseConfig, When
from reason.settings.schedules import ScheduleConfig, Share
from reason.training.precision import LossScaling

COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # a, b, c of the quintic; chosen so that five iterations suffice
ITERATIONS = 5
MOMENTUM = 0.95
Decay = Annotated[float, Field(ge=0, lt=1)]


class OptimizerConfig(BaseConfig):
    """The optimizer, its learning rates and its schedule."""

    kind: Literal["adam-atan2", "adam-atan2-outside", "adamw", "muon"] = Field(
        "adam-atan2",
        description="adam-atan2: bias correction of the first moment inside the arctangent (adam-atan2-pytorch, which "
        "CMM cites); adam-atan2-outside: outside (the fused package of HRM and TRM: the first step is 27 % larger, "
        "after 40 steps less than 1 %); adamw; muon for the matrices of the networks and AdamW for the rest",
    )
    muon_lr: Annotated[float, When("kind", "muon")] = Field(
        0.02, gt=0, le=1000, description="learning rate of Muon's matrices"
    )
    lr: float = Field(1e-4, gt=0, le=1000, description="learning rate of the weights")
    betas: tuple[Decay, Decay] = Field((0.9, 0.95), description="decay of the two moments, as [0.9,0.95]")
    eps: float | None = Field(
        None, ge=0, description="ε, added to √v̂, also in atan2(m̂, √v̂ + ε) (CMM); none: 0 of adam-atan2, else 1e-8"
    )
    weight_decay: float = Field(0.1, ge=0, description="decoupled: p ← p(1 − lr·wd)")
    grad_clip: float | None = Field(
        None, gt=0, description="largest gradient norm; a larger gradient is scaled down; none: no clipping"
    )
    schedule: ScheduleConfig = ScheduleConfig()
    freeze_embedding_after: Share | None = Field(
        None, description="share of the run after which every parameter of x̂ is frozen; none: never"
    )
    puzzle_emb_lr: float = Field(1e-2, ge=0, description="learning rate of the puzzle embeddings' sign-SGD")
    puzzle_emb_weight_decay: float = Field(0.1, ge=0, description="weight decay of the puzzle embeddings")

    def freezes(self, step: int, steps: int) -> bool:
        """Return whether x̂ is frozen at optimizer step `step` (from 0) of `steps`."""
        return self.freeze_embedding_after is not None and step >= self.freeze_embedding_after * steps


def unscaled_gradient(loss: Tensor, weights: Sequence[Tensor], scale: float | Tensor = 1.0) -> list[Tensor]:
    """Return ∇_w of a loss for the `weights` that it depends on; its graph is kept.

    With fp16 activations `scale` keeps small gradients from underflow and is divided out at the end.
    """
    trained = [w for w in weights if w.requires_grad]
    if not trained or not loss.requires_grad:
        return []
    parts = torch.autograd.grad(loss * scale, trained, retain_graph=True, allow_unused=True)
    return [part / scale for part in parts if part is not None]


class SignSGD:
    """p ← p(1 − lr·wd) − lr·sign(Σ g) on the rows of an embedding that a batch touched, and on no other (HRM).

    The gradient must be sparse and uncoalesced, as `nn.Embedding(sparse=True)` leaves it: rows that occur
    several times are summed by an equality matrix, so shapes stay static and the device is never waited for.
    The row of a halted puzzle counts as touched: it decays (ours).
    """

    def __init__(self, table: nn.Parameter, lr: float, weight_decay: float):
        self.table = table
        self.lr = lr
        self.weight_decay = weight_decay

    @torch.no_grad()
    def step(self, factor: float | Tensor, skip: bool = False) -> None:
        """Update once at learning rate lr · factor (not on `skip`); clear the gradient, whose scale does not matter."""
        gradient = self.table.grad
        if gradient is None or skip:
            self.table.grad = None
            return
        rows = gradient._indices()[0]  # (B,)
        values = gradient._values().nan_to_num()  # (B, D); 0 · inf would be NaN in the other rows
        summed = (rows[:, None] == rows[None, :]).to(values.dtype) @ values
        lr = self.lr * factor
        self.table[rows] = self.table[rows] * (1 - lr * self.weight_decay) - lr * summed.sign()
        self.table.grad = None


class AdamAtan2(torch.optim.Optimizer):
    """p ← p(1 − lr·wd) − lr·atan2(m̂, √v̂ + ε), moments m, v as Adam's, m̂ = m/(1 − β₁ᵗ), v̂ = v/(1 − β₂ᵗ).

    Variants that adam-atan2-pytorch does not implement (`build_optimizer`). atan2 needs no ε, yet CMM's tables 8 to
    11 tune one; it is added as in Adam (ours). With the correction outside, as in the CUDA package of HRM and TRM,
    p ← p(1 − lr·wd) − lr/(1 − β₁ᵗ)·atan2(m, √v̂ + ε). With the correction inside and ε = 0 it equals
    adam-atan2-pytorch bit for bit. `capturable`, as in torch: step counts and the rate are tensors of the device.
    """

    def __init__(self, parameters: list[nn.Parameter], config: OptimizerConfig):
        super().__init__(parameters, {"lr": config.lr, "capturable": False})
        self.config = config

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update every parameter that has a gradient."""
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self._move(p, p.grad, group["lr"], group["capturable"])

    def _move(self, p: Tensor, gradient: Tensor, lr: float | Tensor, capturable: bool) -> None:
        # One parameter at a time: lists of tensors (foreach) leave the cache between two operations.
        c = self.config
        state = self.state[p]
        beta1, beta2 = self.config.betas
        if not state:
            state |= {"step": torch.zeros((), device=p.device if capturable else "cpu")}
            state |= {"exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p)}
        state["step"] += 1
        steps = state["step"] if capturable else state["step"].item()
        correction = 1 / (1 - beta1**steps)
        outside = c.kind == "adam-atan2-outside"
        first = state["exp_avg"].lerp_(gradient, 1 - beta1)
        second = state["exp_avg_sq"].lerp_(gradient * gradient, 1 - beta2)
        size = second.mul(1 / (1 - beta2**steps)).sqrt_().add_(c.eps or 0.0)
        angle = first.mul(1.0 if outside else correction).atan2_(size)
        p.mul_(1 - lr * c.weight_decay)
        subtract([p], [angle], lr * (correction if outside else 1.0))


def subtract(weights: list[Tensor], updates: list[Tensor], rate: float | Tensor) -> None:
    """Update p ← p − rate · update in place.

    `alpha` rounds product and sum once, but it cannot be a tensor.
    """
    if isinstance(rate, Tensor):
        torch._foreach_sub_(weights, torch._foreach_mul(updates, rate))
    else:
        torch._foreach_add_(weights, updates, alpha=-rate)


def fused_adam_atan2(device: torch.device) -> Any:
    """Return AdamATan2 of HRM's and TRM's CUDA package `adam-atan2`, or None without it or a GPU."""
    if device.type != "cuda":
        return None
    try:
        from adam_atan2 import AdamATan2
    except ImportError:
        return None
    return AdamATan2


def orthogonalized(matrices: Tensor) -> Tensor:
    """Map matrices UΣVᵀ (n, r, c) to UΣ'Vᵀ by five Newton-Schulz iterations.

    Σ' is between 0.68 and 1.21, less where σ < 0.0015‖Σ‖. X ← aX + (bA + cA²)X with A = XXᵀ, from X of Frobenius norm 1
    (Keller Jordan 2024), in the type of the matrices: `torch.optim.Muon` computes in bfloat16, which most CPUs only
    emulate.
    """
    a, b, c = COEFFICIENTS
    tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.mT if tall else matrices
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)
    for _ in range(ITERATIONS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x


class Muon(torch.optim.AdamW):
    """Muon for matrices, AdamW for all else that is trained: embeddings, heads, vectors (Keller Jordan 2024).

    m ← μm + (1 − μ)g; p ← p(1 − lr·wd) − lr·√max(1, rows/columns)·UVᵀ, UΣVᵀ = (1 − μ)g + μm; μ = 0.95. Matrices of one
    shape are orthogonalized together. Group 0 holds the matrices.
    """

    def __init__(self, matrices: Sequence[nn.Parameter], others: Sequence[nn.Parameter], config: OptimizerConfig):
        groups: list[dict[str, Any]] = [{"params": matrices, "lr": config.muon_lr}, {"params": others}]
        eps = 1e-8 if config.eps is None else config.eps
        super().__init__(groups, config.lr, config.betas, eps, config.weight_decay)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Skip AdamW's check of step counts, which matrices do not have."""
        torch.optim.Optimizer.__setstate__(self, state)

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update once; clear the gradients of the matrices, so that AdamW changes only the rest."""
        group = self.param_groups[0]
        alike = dict[torch.Size, list[Tensor]]()
        for matrix in group["params"]:
            if matrix.grad is not None:
                alike.setdefault(matrix.shape, []).append(matrix)
        for (rows, columns), matrices in alike.items():
            for matrix in matrices:
                self.state[matrix].setdefault("momentum_buffer", torch.zeros_like(matrix))
            gradients = [matrix.grad for matrix in matrices if matrix.grad is not None]
            moments = [self.state[matrix]["momentum_buffer"] for matrix in matrices]
            torch._foreach_lerp_(moments, gradients, 1 - MOMENTUM)
            updates = orthogonalized(torch.stack(torch._foreach_lerp(gradients, moments, MOMENTUM)))
            torch._foreach_mul_(matrices, 1 - group["lr"] * group["weight_decay"])
            step = group["lr"] * math.sqrt(max(1, rows / columns))
            subtract(matrices, list(updates.unbind()), step)
            for matrix in matrices:
                matrix.grad = None
        super().step()


def build_optimizer(
    weights: list[nn.Parameter], config: OptimizerConfig, matrices: Sequence[nn.Parameter] = ()
) -> torch.optim.Optimizer:
    """Build the optimizer that `config` names; `matrices` are the weights that Muon updates."""
    if config.kind == "muon":
        return Muon(matrices, weights[len(matrices) :], config)
    if config.kind == "adamw":
        eps = 1e-8 if config.eps is None else config.eps
        return torch.optim.AdamW(weights, config.lr, config.betas, eps, config.weight_decay)
    if not config.eps and config.kind == "adam-atan2":
        return adam_atan2_pytorch.AdamAtan2(weights, config.lr, config.betas, config.weight_decay, a=1.0)
    if not config.eps and (fused := fused_adam_atan2(weights[0].device)) is not None:
        made = fused(weights, lr=config.lr, betas=config.betas, weight_decay=config.weight_decay)
        made.param_groups[0]["capturable"] = True  # torch then loads step counts onto the device
        return made
    return AdamAtan2(weights, config)


def matrices_of(model: Reasoner) -> set[nn.Parameter]:
    """Return the matrices of the networks: no embedding, no head."""
    return {p for network in model.networks() for p in network.parameters() if p.ndim == 2}


class Optimizers:
    """The optimizer of the weights and sign-SGD of the puzzle embeddings, with one schedule and one state."""

    def __init__(self, model: Reasoner, config: OptimizerConfig, scaling: LossScaling | None = None):
        self.config = config
        self.scaling = scaling or LossScaling(torch.device("cpu"), torch.float32)
        table = getattr(model, "puzzle_embedding", None)
        rates = config.puzzle_emb_lr, config.puzzle_emb_weight_decay
        self.sign = None if table is None else SignSGD(table.weight, *rates)
        trained = [p for name, p in model.named_parameters() if not name.startswith("puzzle_embedding")]
        of_muon = matrices_of(model) if config.kind == "muon" else set()
        self.weights = sorted(trained, key=lambda p: p not in of_muon)  # in the order of a checkpoint
        self.use(build_optimizer(self.weights, config, self.weights[: len(of_muon)]))

    def use(self, optimizer: torch.optim.Optimizer) -> None:
        """Use this optimizer for the weights."""
        self.main = optimizer
        for group in optimizer.param_groups:
            group["initial_lr"] = group["lr"]

    def step(self, factor: float | Tensor = 1.0) -> Tensor:
        """Update once at `factor` times the learning rates, clear the gradients, return their norm before clipping."""
        self.scaling.scaler.unscale_(self.main)
        norm = torch.nn.utils.get_total_norm([p.grad for p in self.weights if p.grad is not None])
        if self.config.grad_clip is not None:
            torch.nn.utils.clip_grads_with_norm_(self.weights, self.config.grad_clip, norm)
        for group in self.main.param_groups:
            group["lr"] = group["initial_lr"] * factor
        moved = self.scaling.step(self.main)
        self.main.zero_grad(set_to_none=True)
        if self.sign is not None:
            self.sign.step(factor, skip=not moved)
        return norm

    def state_dict(self) -> dict[str, Any]:
        """Return the moments and step counts; sign-SGD has none."""
        state: dict[str, Any] = self.main.state_dict()["state"]
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from saved moments. adam-atan2-pytorch counts `steps` by a number, the others `step` by a tensor."""
        moments = {int(index): dict(entry) for index, entry in state.items()}
        for entry in moments.values():
            count = entry.pop("steps", entry.pop("step", None))
            if isinstance(self.main, adam_atan2_pytorch.AdamAtan2):
                entry["steps"] = int(count)
            elif count is not None:
                entry["step"] = torch.as_tensor(count, dtype=torch.float32)
        self.main.load_state_dict(self.main.state_dict() | {"state": moments})
