"""What training reads of a config."""

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
        """Of everything random; here, of the number of loops."""

    @property
    def rollout(self) -> RolloutConfig:
        """Supervision steps, carry, halting."""

    @property
    def loss(self) -> LossConfig:
        """Terms and weights."""

    @property
    def balance(self) -> BalanceConfig:
        """Who chooses the weights of the terms."""

    @property
    def optimizer(self) -> OptimizerConfig:
        """How weights move."""

    @property
    def ema(self) -> EmaConfig:
        """Which average is kept."""

    @property
    def training(self) -> TrainingConfig:
        """How long, and what is written down."""

    def model_dump(self, *, mode: str) -> dict[str, Any]:
        """The whole config as a plain tree, which a checkpoint keeps."""
