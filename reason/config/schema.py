"""The config of one run: its sections and what they ask of each other."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import Field, model_validator

import reason.settings.capabilities as can
from reason.data import DataConfig
from reason.evaluation.config import EvaluationConfig
from reason.losses import TERMS, LossConfig
from reason.losses.balance import BalanceConfig
from reason.models import AnyModelConfig, RecursiveConfig
from reason.plugins import load_parts
from reason.rollout import RolloutConfig
from reason.settings.base import PLAIN, BaseConfig, Elsewhere, Outside, Readable, Resumable
from reason.training.config import TrainingConfig
from reason.training.ema import EmaConfig
from reason.training.optim import OptimizerConfig
from reason.training.warm_start import LayerOrder

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
    init_layers: LayerOrder = Field(
        "same",
        description="with init_from: how L layers fill a stack of n·L layers: same: n = 1; cycle: 1…L 1…L, so that one "
        "loop equals n loops of the old stack; repeat: 1 1 … L L",
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

    @property
    def sections(self) -> list[BaseConfig]:
        """This one and all that it is made of."""
        return [self, *(section for _, section in self if isinstance(section, BaseConfig))]

    def capabilities(self) -> can.Offers:
        """A trained run to start from, whose gate may have learned."""
        started = bool(self.init_from)
        return {can.TRAINED_RUN: started or "init_from=RUN", can.LEARNED_GATE: started}

    def needs(self) -> list[can.Need]:
        """Layers to duplicate."""
        duplicated = can.Need(f"init_layers={self.init_layers}", can.TRAINED_RUN, "init_layers=same")
        return [] if self.init_layers == "same" else [duplicated]

    def unused(self) -> dict[str, str]:
        """Names and places; evaluation; the reduction of terms that a gate per puzzle leaves one value a row."""
        placed = Elsewhere("it says what the run is called and where it is computed")
        found: dict[str, str] = {"name": placed, "device": placed}
        read = [f"evaluation.{name}" for name in type(self.evaluation).settings()]
        found |= dict.fromkeys(read, Elsewhere("it is read at evaluation"))
        gated = self.model.capabilities().get(can.PUZZLE_GATE) is True
        reduced = [TERMS[name] for name in self.loss.present if "reduction" in TERMS[name].settings]
        if gated and reduced and all(can.EXIT_GATE in term.needs for term in reduced):
            found["loss.reduction"] = "model.gate=puzzle gives each exit term one value a row, and there is no lm"
        return found

    def refuse_unmet(self, needs: Iterable[can.Need]) -> None:
        """Raise ConfigError for the first need that no section meets, with what to type."""
        can.refuse_unmet(needs, [section.capabilities() for section in self.sections])

    @model_validator(mode="after")
    def _sections_fit(self) -> Config:
        self.refuse_unmet(need for section in self.sections for need in section.needs())
        return self
