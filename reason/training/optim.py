"""Optimizers: Adam-atan2 or AdamW for the weights, sign-SGD for the puzzle embeddings behind them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import torch
from adam_atan2_pytorch import AdamAtan2
from pydantic import Field
from torch import Tensor, nn

from reason.models.base import Reasoner
from reason.section import Section
from reason.training.scaling import LossScaling
from reason.training.schedules import ScheduleConfig

Decay = Annotated[float, Field(ge=0, lt=1)]


class OptimizerConfig(Section):
    """How weights move."""

    kind: Literal["adam-atan2", "adamw"] = Field("adam-atan2", description="adam-atan2 has no epsilon (HRM, TRM, CMM)")
    lr: float = Field(1e-4, gt=0, description="learning rate of the weights")
    betas: tuple[Decay, Decay] = Field((0.9, 0.95), description="decay of the two moments, as [0.9,0.95]")
    weight_decay: float = Field(0.1, ge=0, description="decoupled: p ← p(1 − lr·wd)")
    schedule: ScheduleConfig = ScheduleConfig()
    puzzle_lr: float = Field(1e-2, ge=0, description="learning rate of the puzzle embeddings' sign-SGD")
    puzzle_weight_decay: float = Field(0.1, ge=0, description="its decay")


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

    def __init__(self, model: Reasoner, config: OptimizerConfig, total_steps: int, scaling: LossScaling | None = None):
        self.config, self.total_steps = config, total_steps
        self.scaling = scaling or LossScaling(torch.device("cpu"), torch.float32)
        table = getattr(model, "puzzle_embedding", None)
        self.sign = SignSGD(table.weight, config.puzzle_lr, config.puzzle_weight_decay) if table is not None else None
        self.weights = [p for name, p in model.named_parameters() if not name.startswith("puzzle_embedding")]
        shared: dict[str, Any] = {"lr": config.lr, "betas": config.betas, "weight_decay": config.weight_decay}
        self.main: torch.optim.Optimizer
        if config.kind == "adam-atan2":
            self.main = AdamAtan2(self.weights, **shared, a=1.0)
        else:
            self.main = torch.optim.AdamW(self.weights, **shared)

    def step(self, step: int) -> Tensor:
        """Optimizer step number `step` (from 0); clears the gradients and returns the norm they had."""
        factor = self.config.schedule.factor(step, self.total_steps)
        self.scaling.unscale(self.main)
        norm = torch.nn.utils.get_total_norm([p.grad for p in self.weights if p.grad is not None])
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
