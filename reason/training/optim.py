"""Optimizers: Adam-atan2, AdamW or Muon for the weights, sign-SGD for the puzzle embeddings behind them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import adam_atan2_pytorch
import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

import reason.settings.capabilities as can
from reason.errors import ConfigError
from reason.models.base import Reasoner
from reason.settings.base import BaseConfig, Resumable, When, With
from reason.settings.schedules import Horizon, ScheduleConfig
from reason.training.adam_atan2 import AdamAtan2, BiasCorrection, fused_adam_atan2
from reason.training.muon import MuonAdamW
from reason.training.precision import LossScaling

EMBEDDED = With(can.PUZZLE_EMBEDDING)
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
        None, ge=0, description="added to √v̂, in atan2(m̂, √v̂ + ε) too (CMM); none: 0 for adam-atan2, 1e-8 for AdamW"
    )
    a: float = Field(
        1.0, gt=0, description="adam-atan2: factor of the arctangent; 1: HRM, TRM; 1.27: adam-atan2-pytorch's default"
    )
    bias_correction: BiasCorrection = Field(
        "inside",
        description="adam-atan2: of the first moment, inside the arctangent (adam-atan2-pytorch, which CMM cites), or "
        "outside (the fused package of HRM and TRM: a first step 27 % larger, under 1 % after 40)",
    )
    backend: Resumable[Literal["auto", "fused", "torch"]] = Field(
        "auto",
        description="adam-atan2 with bias_correction=outside: fused, the CUDA package adam-atan2; torch; auto: fused "
        "where it is installed",
    )
    weight_decay: float = Field(0.1, ge=0, description="decoupled: p ← p(1 − lr·wd)")
    grad_clip: float | None = Field(
        None, gt=0, description="the gradient's norm is scaled down to this; none: as it is"
    )
    schedule: ScheduleConfig = ScheduleConfig()
    freeze_embedding_after: float | None = Field(
        None, ge=0, description="epochs after which all that x̂ is made of stays as it is; none: never"
    )
    puzzle_emb_lr: Annotated[float, EMBEDDED] = Field(
        1e-2, ge=0, description="learning rate of the puzzle embeddings' sign-SGD"
    )
    puzzle_emb_weight_decay: Annotated[float, EMBEDDED] = Field(0.1, ge=0, description="its decay")

    @model_validator(mode="after")
    def _adamw_has_none_of_atan2s(self) -> OptimizerConfig:
        if self.kind != "adam-atan2":
            for key, default in (("a", 1.0), ("bias_correction", "inside"), ("backend", "auto")):
                if getattr(self, key) != default:
                    raise ValueError(
                        f"{key}={getattr(self, key)} is adam-atan2's: type optimizer.kind=adam-atan2, or "
                        f"optimizer.{key}={default}"
                    )
        if self.backend == "fused" and not self.fits_fused:
            raise ValueError(
                "backend=fused corrects outside the arctangent and has neither ε nor a: type "
                "optimizer.bias_correction=outside optimizer.eps=none optimizer.a=1, or optimizer.backend=torch"
            )
        return self

    @property
    def fits_fused(self) -> bool:
        """Whether the fused package computes this update."""
        return self.kind == "adam-atan2" and self.bias_correction == "outside" and not self.eps and self.a == 1

    def unused(self) -> dict[str, str]:
        """Another implementation of the same update."""
        return {"backend": "it computes the same update"}

    def needs(self) -> list[can.Need]:
        """Networks whose matrices Muon moves; an embedding that can be frozen alone."""
        found = []
        if self.kind == "muon":
            found.append(can.Need("optimizer.kind=muon", can.NETWORKS, "optimizer.kind=adamw"))
        if self.freeze_embedding_after is not None:
            setting = f"optimizer.freeze_embedding_after={self.freeze_embedding_after:g}"
            found.append(can.Need(setting, can.FREEZABLE_EMBEDDING, "optimizer.freeze_embedding_after=none"))
        return found


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


def build_optimizer(
    weights: list[nn.Parameter], config: OptimizerConfig, device: torch.device
) -> torch.optim.Optimizer:
    """The optimizer of weights on a device that `config` names, Muon apart.

    Raises:
        ConfigError: the fused package was asked for, and is not installed or not for this device.
    """
    lr, betas, eps, wd = config.lr, config.betas, config.eps, config.weight_decay
    if config.kind == "adamw":
        return torch.optim.AdamW(weights, lr, betas, 1e-8 if eps is None else eps, wd)
    may = config.fits_fused and config.backend != "torch" and device.type == "cuda"
    fused = fused_adam_atan2() if may else None
    if fused is not None:
        return fused(weights, lr=lr, betas=betas, weight_decay=wd)  # type: ignore[call-arg]
    if config.backend == "fused":
        raise ConfigError(
            f"optimizer.backend=fused needs a CUDA device, this is {device}, and the package adam-atan2: pip install "
            "'recursive-reasoners[cuda]', or type optimizer.backend=torch"
        )
    if config.bias_correction == "inside" and not eps:
        return adam_atan2_pytorch.AdamAtan2(weights, lr, betas, wd, a=config.a)
    return AdamAtan2(weights, lr, betas, wd, eps or 0.0, config.a, config.bias_correction)


def _muon(matrices: list[nn.Parameter], others: list[nn.Parameter], config: OptimizerConfig) -> MuonAdamW:
    eps = 1e-8 if config.eps is None else config.eps
    return MuonAdamW(matrices, others, config.muon_lr, config.lr, config.betas, eps, config.weight_decay)


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
            _muon(self.weights[: self.matrices], self.weights[self.matrices :], config)
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
        self.scaling.unscale(self.main)
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
        """The moments and step counts (sign-SGD has none), the same for either backend."""
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
