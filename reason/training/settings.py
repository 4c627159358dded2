"""The protocol of a config as training sees it."""

from __future__ import annotations

from typing import Any, Protocol

from reason.losses import LossConfig
from reason.losses.balance import BalanceConfig
from reason.rollout import RolloutConfig
from reason.training.config import TrainingConfig
from reason.training.ema import EmaConfig
from reason.training.optim import OptimizerConfig


class Settings(Protocol):
    """The parts of a config that training reads."""

    @property
    def seed(self) -> int:
        """The seed of all random streams."""

    @property
    def rollout(self) -> RolloutConfig:
        """Supervision steps, carry, halting."""

    @property
    def loss(self) -> LossConfig:
        """Terms and weights."""

    @property
    def balance(self) -> BalanceConfig:
        """Fixed weights λ, or AlgGradNorm."""

    @property
    def optimizer(self) -> OptimizerConfig:
        """Optimizer, learning rates, schedule."""

    @property
    def ema(self) -> EmaConfig:
        """The weight average."""

    @property
    def training(self) -> TrainingConfig:
        """Length, batch size, precision, logs, checkpoints."""

    def model_dump(self, *, mode: str) -> dict[str, Any]:
        """The whole config as a plain tree, for the checkpoint."""
