"""Optimizers: Adam-atan2 or AdamW for the weights, sign-SGD for the puzzle embeddings behind them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import torch
from adam_atan2_pytorch import AdamAtan2
from pydantic import Field
from torch import Tensor, nn

import reason.config.capabilities as can
from reason.config.base import BaseConfig
from reason.config.schedules import Horizon, ScheduleConfig
from reason.models.base import Reasoner
from reason.training.adam_atan2 import AdamAtan2WithEpsilon
from reason.training.scaling import LossScaling

Decay = Annotated[float, Field(ge=0, lt=1)]


class OptimizerConfig(BaseConfig):
    """How weights move."""

    kind: Literal["adam-atan2", "adamw"] = Field("adam-atan2", description="adam-atan2 (HRM, TRM, CMM) or AdamW")
    lr: float = Field(1e-4, gt=0, le=1000, description="learning rate of the weights")
    betas: tuple[Decay, Decay] = Field((0.9, 0.95), description="decay of the two moments, as [0.9,0.95]")
    eps: float | None = Field(
        None, ge=0, description="added to √v̂, in atan2(m̂, √v̂ + ε) too (CMM); none: 0 for adam-atan2, 1e-8 for adamw"
    )
    weight_decay: float = Field(0.1, ge=0, description="decoupled: p ← p(1 − lr·wd)")
    grad_clip: float | None = Field(
        None, gt=0, description="the gradient's norm is scaled down to this; none: as it is"
    )
    schedule: ScheduleConfig = ScheduleConfig()
    freeze_embedding_after: float | None = Field(
        None, ge=0, description="epochs after which all that x̂ is made of stays as it is; none: never"
    )
    puzzle_emb_lr: float = Field(1e-2, ge=0, description="learning rate of the puzzle embeddings' sign-SGD")
    puzzle_emb_weight_decay: float = Field(0.1, ge=0, description="its decay")

    def needs(self) -> list[can.Need]:
        """An embedding that can rest."""
        if self.freeze_embedding_after is None:
            return []
        setting = f"optimizer.freeze_embedding_after={self.freeze_embedding_after:g}"
        return [can.Need(setting, can.FREEZABLE_EMBEDDING, "optimizer.freeze_embedding_after=none")]


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


class Optimizers:
    """All that moves weights: one step, one schedule, one state."""

    def __init__(self, model: Reasoner, config: OptimizerConfig, horizon: Horizon, scaling: LossScaling | None = None):
        self.config, self.horizon = config, horizon
        self.scaling = scaling or LossScaling(torch.device("cpu"), torch.float32)
        table = getattr(model, "puzzle_embedding", None)
        self.sign = (
            SignSGD(table.weight, config.puzzle_emb_lr, config.puzzle_emb_weight_decay) if table is not None else None
        )
        self.weights = [p for name, p in model.named_parameters() if not name.startswith("puzzle_embedding")]
        lr, betas, eps, wd = config.lr, config.betas, config.eps, config.weight_decay
        self.main: torch.optim.Optimizer
        if config.kind == "adam-atan2":
            self.main = (
                AdamAtan2WithEpsilon(self.weights, lr, betas, eps, wd)
                if eps
                else AdamAtan2(self.weights, lr, betas, wd, a=1.0)
            )
        else:
            self.main = torch.optim.AdamW(self.weights, lr, betas, 1e-8 if eps is None else eps, wd)

    def step(self, step: int) -> Tensor:
        """Optimizer step number `step` (from 0); clears the gradients and returns the norm they had before clipping."""
        factor = self.config.schedule.factor(step, self.horizon)
        self.scaling.unscale(self.main)
        norm = torch.nn.utils.get_total_norm([p.grad for p in self.weights if p.grad is not None])
        if self.config.grad_clip is not None:
            torch.nn.utils.clip_grads_with_norm_(self.weights, self.config.grad_clip, norm)
        for group in self.main.param_groups:
            group["lr"] = self.config.lr * factor
        moved = self.scaling.step(self.main)
        self.main.zero_grad(set_to_none=True)
        if self.sign is not None:
            self.sign.step(factor, skip=not moved)
        return norm

    def state_dict(self) -> dict[str, Any]:
        """The moments and step counts (sign-SGD has none)."""
        return self.main.state_dict()["state"]

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from saved moments."""
        whole = self.main.state_dict()
        whole["state"] = {int(index): entry for index, entry in state.items()}
        self.main.load_state_dict(whole)
