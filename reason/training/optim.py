"""Optimizers: Adam-atan2, AdamW or Muon for the weights, sign-SGD for the puzzle embeddings behind them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

import adam_atan2_pytorch
import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from reason.models.base import Reasoner
from reason.settings.base import BaseConfig, When
from reason.settings.schedules import Horizon, ScheduleConfig
from reason.training.precision import LossScaling

BiasCorrection = Literal["inside", "outside"]
COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # a, b, c: steep at 0, so that few iterations do
ITERATIONS = 5
MOMENTUM = 0.95
Decay = Annotated[float, Field(ge=0, lt=1)]


class OptimizerConfig(BaseConfig):
    """How weights move."""

    kind: Literal["adam-atan2", "adamw", "muon"] = Field(
        "adam-atan2",
        description="adam-atan2 (HRM, TRM, CMM); AdamW; Muon for the matrices of the networks and AdamW for the rest",
    )
    muon_lr: Annotated[float, When("kind", "muon")] = Field(
        0.02, gt=0, le=1000, description="learning rate of Muon's matrices"
    )
    lr: float = Field(1e-4, gt=0, le=1000, description="learning rate of the weights")
    betas: tuple[Decay, Decay] = Field((0.9, 0.95), description="decay of the two moments, as [0.9,0.95]")
    eps: float | None = Field(
        None, ge=0, description="ε, added to √v̂, also in atan2(m̂, √v̂ + ε) (CMM); none: 0 for adam-atan2, else 1e-8"
    )
    bias_correction: BiasCorrection = Field(
        "inside",
        description="adam-atan2: bias correction of the first moment: inside the arctangent (adam-atan2-pytorch, which "
        "CMM cites), or outside (the fused package of HRM and TRM: the first step is 27 % larger, after 40 steps less "
        "than 1 %)",
    )
    weight_decay: float = Field(0.1, ge=0, description="decoupled: p ← p(1 − lr·wd)")
    grad_clip: float | None = Field(
        None, gt=0, description="largest gradient norm; a larger gradient is scaled down; none: no clipping"
    )
    schedule: ScheduleConfig = ScheduleConfig()
    freeze_embedding_after: float | None = Field(
        None, ge=0, description="epochs after which every parameter of x̂ is frozen; none: never"
    )
    puzzle_emb_lr: float = Field(1e-2, ge=0, description="learning rate of the puzzle embeddings' sign-SGD")
    puzzle_emb_weight_decay: float = Field(0.1, ge=0, description="weight decay of the puzzle embeddings")

    @model_validator(mode="after")
    def _correction_is_atan2s(self) -> OptimizerConfig:
        if self.kind != "adam-atan2" and self.bias_correction != "inside":
            raise ValueError(
                f"bias_correction={self.bias_correction} is adam-atan2's: type optimizer.kind=adam-atan2, or "
                "optimizer.bias_correction=inside"
            )
        return self


def unscaled_gradient(loss: Tensor, weights: Sequence[nn.Parameter], scale: float | Tensor = 1.0) -> list[Tensor]:
    """∇_w of a loss for those of `weights` that it reaches; its graph stays.

    With fp16 activations `scale` keeps small gradients from vanishing on their way and is divided out at the end.
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
    A row that only waits for its next puzzle counts as touched: it decays (ours).
    """

    def __init__(self, table: nn.Parameter, lr: float, weight_decay: float):
        self.table, self.lr, self.weight_decay = table, lr, weight_decay

    @torch.no_grad()
    def step(self, factor: float, skip: bool = False) -> None:
        """One update at learning rate lr · factor (none on `skip`); clears the gradient. Its scale does not matter."""
        gradient = self.table.grad
        if gradient is None or skip:
            self.table.grad = None
            return
        rows, values = gradient._indices()[0], gradient._values()  # (B,), (B, D)
        summed = (rows[:, None] == rows[None, :]).to(values.dtype) @ values
        lr = self.lr * factor
        self.table[rows] = self.table[rows] * (1 - lr * self.weight_decay) - lr * summed.sign()
        self.table.grad = None


class AdamAtan2(torch.optim.Optimizer):
    """p ← p(1 − lr·wd) − lr·atan2(m̂, √v̂ + ε), moments m, v as Adam's, m̂ = m/(1 − β₁ᵗ), v̂ = v/(1 − β₂ᵗ).

    With ε = 0 and the correction inside, the update is that of the package adam-atan2-pytorch, which CMM cites, to the
    bit; `build_optimizer` then takes the package. Its state has the same names. Two forms are ours alone:

    - ε: atan2 needs none, yet CMM's tables 8 to 11 tune one; it is added where Adam has it (ours).
    - bias_correction "outside", as the fused CUDA package of HRM and TRM has it:
      p ← p(1 − lr·wd) − lr/(1 − β₁ᵗ)·atan2(m, √v̂ + ε). For small quotients the two agree; the first step, whose
      quotient is 1, is 27 % larger, after 40 steps of one gradient the difference is less than 1 %.
    """

    def __init__(
        self,
        parameters: list[nn.Parameter],
        lr: float,
        betas: tuple[float, float],
        weight_decay: float,
        eps: float = 0.0,
        bias_correction: BiasCorrection = "inside",
    ):
        super().__init__(parameters, {"lr": lr, "betas": betas, "weight_decay": weight_decay, "eps": eps})
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
        p.add_(angle, alpha=-lr * (correction if self.outside else 1.0))


def fused_adam_atan2() -> type[torch.optim.Optimizer] | None:
    """AdamATan2 of the CUDA package `adam-atan2`, which HRM and TRM train with; None where it cannot be imported.

    Its update is that of `AdamAtan2` with the correction outside and ε = 0.
    """
    try:
        from adam_atan2 import AdamATan2
    except ImportError:
        return None
    return AdamATan2


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
            for matrix in matrices:
                if not self.state[matrix]:
                    self.state[matrix]["momentum_buffer"] = torch.zeros_like(matrix)
            moments = [self.state[matrix]["momentum_buffer"] for matrix in matrices]
            torch._foreach_lerp_(moments, gradients, 1 - MOMENTUM)
            updates = orthogonalized(torch.stack(torch._foreach_lerp(gradients, moments, MOMENTUM)))
            torch._foreach_mul_(matrices, 1 - group["lr"] * group["weight_decay"])
            step = group["lr"] * math.sqrt(max(1, rows / columns))
            torch._foreach_add_(matrices, list(updates.unbind()), alpha=-step)


class MuonAdamW(torch.optim.Optimizer):
    """Muon, and AdamW for all else that is trained: embeddings, heads, vectors (Keller Jordan 2024).

    Both parts share this optimizer's groups and state: group 0 is Muon's.
    """

    def __init__(self, matrices: Sequence[nn.Parameter], others: Sequence[nn.Parameter], config: OptimizerConfig):
        eps, decay = 1e-8 if config.eps is None else config.eps, config.weight_decay
        adamw = torch.optim.AdamW(others, config.lr, config.betas, eps, decay)
        self.parts = Muon(matrices, config.muon_lr, decay), adamw
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


def build_optimizer(
    weights: list[nn.Parameter], config: OptimizerConfig, device: torch.device
) -> torch.optim.Optimizer:
    """The optimizer of weights on a device that `config` names, Muon apart; the fused package where it is installed."""
    lr, betas, eps, wd = config.lr, config.betas, config.eps, config.weight_decay
    if config.kind == "adamw":
        return torch.optim.AdamW(weights, lr, betas, 1e-8 if eps is None else eps, wd)
    if config.bias_correction == "inside" and not eps:
        return adam_atan2_pytorch.AdamAtan2(weights, lr, betas, wd, a=1.0)
    fused = fused_adam_atan2() if device.type == "cuda" and not eps else None
    if fused is not None and config.bias_correction == "outside":
        return fused(weights, lr=lr, betas=betas, weight_decay=wd)  # type: ignore[call-arg]
    return AdamAtan2(weights, lr, betas, wd, eps or 0.0, config.bias_correction)


def matrices_of(model: Reasoner) -> set[nn.Parameter]:
    """The matrices of the networks: no embedding, no head."""
    return {p for network in model.networks() for p in network.parameters() if p.ndim == 2}


class Optimizers:
    """All that moves weights: one step, one schedule, one state."""

    def __init__(self, model: Reasoner, config: OptimizerConfig, horizon: Horizon, scaling: LossScaling | None = None):
        self.config, self.horizon = config, horizon
        self.scaling = scaling or LossScaling(torch.device("cpu"), torch.float32)
        table = getattr(model, "puzzle_embedding", None)
        self.sign = (
            SignSGD(table.weight, config.puzzle_emb_lr, config.puzzle_emb_weight_decay) if table is not None else None
        )
        trained = [p for name, p in model.named_parameters() if not name.startswith("puzzle_embedding")]
        of_muon = matrices_of(model) if config.kind == "muon" else set()
        self.weights = sorted(trained, key=lambda p: p not in of_muon)  # as they are numbered in a checkpoint
        self.matrices = len(of_muon)
        self.main = (
            MuonAdamW(self.weights[: self.matrices], self.weights[self.matrices :], config)
            if config.kind == "muon"
            else build_optimizer(self.weights, config, self.weights[0].device)
        )

    @property
    def fused(self) -> bool:
        """Whether the fused package moves the weights."""
        return type(self.main) is fused_adam_atan2()

    def step(self, step: int) -> Tensor:
        """Optimizer step number `step` (from 0); clears the gradients and returns the norm they had before clipping."""
        factor = self.config.schedule.factor(step, self.horizon)
        self.scaling.scaler.unscale_(self.main)
        norm = torch.nn.utils.get_total_norm([p.grad for p in self.weights if p.grad is not None])
        if self.config.grad_clip is not None:
            torch.nn.utils.clip_grads_with_norm_(self.weights, self.config.grad_clip, norm)
        for group in self.main.param_groups:
            group["lr"] = group.get("initial_lr", self.config.lr) * factor
        moved = self.scaling.step(self.main)
        self.main.zero_grad(set_to_none=True)
        if self.sign is not None:
            self.sign.step(factor, skip=not moved)
        return norm

    def state_dict(self) -> dict[str, Any]:
        """The moments and step counts (sign-SGD has none), the same for the fused package."""
        state = self.main.state_dict()["state"]
        if not self.fused:
            return state
        return {
            index: {name: part for name, part in entry.items() if name != "step"} | {"steps": int(entry["step"])}
            for index, entry in state.items()
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from saved moments."""
        whole = self.main.state_dict()
        whole["state"] = {int(index): dict(entry) for index, entry in state.items()}
        if self.fused:
            for entry in whole["state"].values():
                entry["step"] = torch.tensor(float(entry.pop("steps")), device=self.weights[0].device)
        self.main.load_state_dict(whole)
