"""The config of one run: its sections and what they ask of each other."""

from __future__ import annotations

from pydantic import Field, model_validator

from reason.config.fits import refuse_unfit
from reason.data import DataConfig
from reason.errors import has_controls, printable
from reason.evaluation.config import EvaluationConfig
from reason.losses import LossConfig
from reason.losses.balance import BalanceConfig
from reason.models import FAMILIES, AnyModelConfig, RecursiveConfig
from reason.models.base import Reasoner
from reason.plugins import load_parts
from reason.settings.base import PLAIN, BaseConfig, Outside, Readable, Resumable, leaves
from reason.settings.rollout import RolloutConfig
from reason.training.config import TrainingConfig
from reason.training.ema import EmaConfig
from reason.training.optim import OptimizerConfig

load_parts("settings")


class Config(BaseConfig):
    """The whole config of a run; equal configs and data sets give equal runs."""

    name: Outside[str] = Field("custom", pattern=PLAIN, description="the preset it came from: a plain name")
    seed: int = Field(0, ge=0, lt=2**63, description="random seed of weights, data order, augmentation and exploration")
    init_from: Resumable[str | None] = Field(
        None,
        description="a run whose trained weights are the initial weights; its puzzle may have other constraints; none: "
        "random initial weights",
    )
    device: Readable[Outside[str]] = Field(
        "auto", pattern=r"^(auto|cpu|mps|cuda(:\d+)?)$", description="auto, cpu, mps, cuda, cuda:1"
    )
    data: DataConfig = DataConfig()
    model: AnyModelConfig = RecursiveConfig()
    rollout: RolloutConfig = RolloutConfig()
    loss: LossConfig = Field(default_factory=LossConfig)
    balance: BalanceConfig = BalanceConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    ema: EmaConfig = EmaConfig()
    training: TrainingConfig = TrainingConfig()
    evaluation: Readable[Outside[EvaluationConfig]] = EvaluationConfig()

    def model_has(self, method: str) -> bool:
        """Whether the family of the model has a method for which `Reasoner` has no default: map, networks, …"""
        return getattr(FAMILIES[self.model.kind].model, method) is not getattr(Reasoner, method)

    @property
    def drawn(self) -> float:
        """Puzzles that the loader draws in the whole training: epochs times base puzzles."""
        return self.training.steps * self.training.batch_size * self.rollout.grad_steps / self.rollout.accum_steps

    @model_validator(mode="after")
    def _sections_fit(self) -> Config:
        refuse_unfit(self)
        for key, value in leaves(self.model_dump()).items():  # what files cannot hold, or a terminal executes
            if isinstance(value, int) and abs(value) >= 2**63:
                raise ValueError(f"{key}: a whole number of at most 63 bits is needed")
            if isinstance(value, str) and has_controls(value):
                raise ValueError(f"{key}={printable(value)} holds control characters; leave them out")
        return self
