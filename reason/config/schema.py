"""The config of one run: its sections and what they ask of each other."""

from __future__ import annotations

from pydantic import Field, model_validator

from reason.config.base import BaseConfig
from reason.data import DataConfig
from reason.evaluation.config import EvaluationConfig
from reason.losses import LossConfig
from reason.losses.balance import BalanceConfig
from reason.models import LoopedConfig, ModelConfig, RecursiveConfig
from reason.rollout import RolloutConfig
from reason.training.config import TrainingConfig
from reason.training.ema import EmaConfig
from reason.training.optim import OptimizerConfig
from reason.training.warm_start import LayerOrder


class Config(BaseConfig):
    """Everything that decides a run: the rooms' own sections, and a seed."""

    name: str = Field("custom", description="the preset it came from")
    seed: int = Field(0, ge=0, lt=2**63, description="of weights, data order, augmentation and exploration")
    init_from: str | None = Field(None, description="a run whose trained weights this one starts from; none: random")
    init_layers: LayerOrder = Field(
        "same",
        description="how a stack of L layers fills one of n·L: same: not at all; cycle: 1…L 1…L, so that one loop does "
        "what n loops did; repeat: 1 1 … L L",
    )
    device: str = Field("auto", pattern=r"^(auto|cpu|mps|cuda(:\d+)?)$", description="auto, cpu, mps, cuda, cuda:1")
    data: DataConfig = DataConfig()
    model: ModelConfig = RecursiveConfig()
    rollout: RolloutConfig = RolloutConfig()
    loss: LossConfig = LossConfig()
    balance: BalanceConfig = BalanceConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    ema: EmaConfig = EmaConfig()
    training: TrainingConfig = TrainingConfig()
    evaluation: EvaluationConfig = EvaluationConfig()

    @model_validator(mode="after")
    def _model_fits_rollout(self) -> Config:
        loops, weights = self.rollout.loops, self.loss.weights
        if isinstance(self.model, LoopedConfig):
            trained = next((name for name in ("q_halt", "q_continue") if getattr(weights, name)), None)
            if trained is not None:
                raise ValueError(f"a looped model has no halting head to train: type loss.weights.{trained}=0")
            if self.rollout.halting not in ("none", "gate"):
                raise ValueError("a looped model has no halting head to ask: type rollout.halting=none")
            if self.optimizer.freeze_embedding_after is not None:
                raise ValueError(
                    "a looped model's embedding is its head too, and cannot rest alone: type "
                    "optimizer.freeze_embedding_after=none"
                )
        elif (loops.distribution != "fixed" or loops.count > 1) and self.model.gradient != "all-cycles":
            raise ValueError(
                f"rollout.loops asks for several supervision steps in one backward pass, and no gradient passes from "
                f"one to the one before under model.gradient={self.model.gradient}: type model.gradient=all-cycles, or "
                "rollout.loops.distribution=fixed rollout.loops.count=1 (rollout.grad_steps averages gradients over "
                "steps)"
            )
        return self

    @model_validator(mode="after")
    def _gate_is_there_and_learns(self) -> Config:
        weights, loops, gate = self.loss.weights, self.rollout.loops, self.model.gate
        stage_1 = next((name for name in ("exit", "exit_entropy") if getattr(weights, name)), None)
        learns = stage_1 or ("exit_gate" if weights.exit_gate else None)
        if learns and gate == "none":
            raise ValueError(f"loss.weights.{learns} needs an exit gate: type model.gate=position, or puzzle")
        several = loops.distribution != "fixed" or loops.count > 1
        if stage_1 and not (several and loops.supervision == "per-loop"):
            raise ValueError(
                f"loss.weights.{stage_1} weighs the losses of several loops of one backward pass: type "
                "rollout.loops.count=4 rollout.loops.supervision=per-loop"
            )
        if weights.exit_gate and several and loops.supervision != "per-loop":
            raise ValueError("loss.weights.exit_gate compares every loop: type rollout.loops.supervision=per-loop")
        if weights.exit_gate and self.rollout.trained_steps < (2 if self.loss.exit.first else 3):
            raise ValueError(
                f"loss.weights.exit_gate teaches the gate from loop 2 to the last but one, and there are "
                f"{self.rollout.trained_steps}: type rollout.loops.count=4"
            )
        if self.rollout.halting == "gate" and gate != "puzzle":
            raise ValueError(f"rollout.halting=gate asks a gate per puzzle, not model.gate={gate}: model.gate=puzzle")
        if self.rollout.halting == "gate" and not (learns or self.init_from):
            raise ValueError("rollout.halting=gate asks a gate that no loss trains: type loss.weights.exit_gate=1")
        if self.training.only == "gate" and not (learns and self.init_from):
            raise ValueError(
                "training.only=gate trains the exit gate of a finished run by one of its losses: type init_from=RUN "
                "and loss.weights.exit_gate=1"
            )
        return self

    @model_validator(mode="after")
    def _final_readouts_are_reached(self) -> Config:
        model, rollout = self.model, self.rollout
        if isinstance(model, LoopedConfig) and model.readout == "final-only":
            if rollout.supervision_steps > 1:
                raise ValueError("model.readout=final-only counts loops of one pass: type rollout.supervision_steps=1")
            if rollout.trained_steps < model.final_from:
                raise ValueError(
                    f"model.readout=final-only normalises from loop {model.final_from} on, and training takes "
                    f"{rollout.trained_steps}: type model.final_from={rollout.trained_steps}"
                )
        if self.init_layers != "same" and not self.init_from:
            raise ValueError(
                f"init_layers={self.init_layers} duplicates the layers of a trained run: type init_from=RUN"
            )
        return self

    @model_validator(mode="after")
    def _composes(self) -> Config:
        learns = self.loss.weights.q_continue > 0
        if learns and self.rollout.halting != "q-learning":
            raise ValueError("loss.weights.q_continue needs its target: type rollout.halting=q-learning")
        if not learns and self.rollout.halting == "q-learning":
            raise ValueError(
                "rollout.halting=q-learning reads q_continue, which no loss trains: type loss.weights.q_continue=0.5"
            )
        if self.rollout.halting in ("bce", "q-learning") and self.loss.weights.q_halt == 0:
            raise ValueError(
                f"rollout.halting={self.rollout.halting} asks a head that no loss trains: type loss.weights.q_halt=1, "
                "or rollout.halting=none"
            )
        if self.loss.weights.rep_z_l > 0 and (isinstance(self.model, LoopedConfig) or self.model.states == 1):
            mend = "" if isinstance(self.model, LoopedConfig) else "model.states=2, or "
            raise ValueError(f"loss.weights.rep_z_l needs a low state: type {mend}loss.weights.rep_z=1e3")
        if self.loss.weights.jsrr and self.loss.jsrr.convex and self.balance.kind != "fixed":
            raise ValueError(
                f"loss.jsrr.convex fixes LM's weight at 1 − λ, which balance.kind={self.balance.kind} chooses itself: "
                "type loss.jsrr.convex=false"
            )
        strangers = [name for name in self.balance.targets if name not in self.loss.present]
        if strangers:
            raise ValueError(f"balance.targets: {strangers[0]} is no term of this loss: {', '.join(self.loss.present)}")
        if self.balance.targets and self.balance.kind == "fixed":
            raise ValueError("balance.targets are aimed at by a balancer: type balance.kind=alg-grad-norm")
        return self
