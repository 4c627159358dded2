"""What training reads of a run's config."""

from __future__ import annotations

from typing import Any, Protocol

from reason.losses import LossConfig
from reason.losses.balance import BalanceConfig
from reason.rollout import RolloutConfig
from reason.settings.base import BaseConfig
from reason.training.config import TrainingConfig
from reason.training.ema import EmaConfig
from reason.training.optim import OptimizerConfig


class Recipe(Protocol):
    """The sections of `reason.config.schema.Config` that a trainer uses."""

    @property
    def seed(self) -> int:
        """Of data order, exploration and random loops."""

    @property
    def rollout(self) -> RolloutConfig:
        """Supervision steps and carry."""

    @property
    def loss(self) -> LossConfig:
        """Terms and their weights."""

    @property
    def balance(self) -> BalanceConfig:
        """Fixed weights or AlgGradNorm."""

    @property
    def optimizer(self) -> OptimizerConfig:
        """Optimizer and learning rate."""

    @property
    def ema(self) -> EmaConfig:
        """Average of the weights."""

    @property
    def training(self) -> TrainingConfig:
        """Length, batch size, logging and checkpoints."""

    @property
    def sections(self) -> list[BaseConfig]:
        """All of them."""

    def model_dump(self, *, mode: str) -> dict[str, Any]:
        """The whole config, which a checkpoint holds."""
