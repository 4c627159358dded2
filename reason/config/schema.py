"""The config of one run: its sections and their requirements on each other."""

from __future__ import annotations

from pydantic import Field, model_validator

from reason.data.config import DataConfig
from reason.errors import has_controls, printable
from reason.evaluation.config import STUDIES, EvaluationConfig
from reason.losses import TERMS, AnyLossConfig, loss_config
from reason.losses.balance import BalanceConfig
from reason.models import FAMILIES, AnyModelConfig
from reason.models.base import Reasoner
from reason.models.mapped import Mapped
from reason.plugins import load_parts
from reason.settings.base import PLAIN, BaseConfig, Outside, Readable, Resumable, leaves, require
from reason.settings.rollout import RolloutConfig
from reason.training.config import TrainingConfig
from reason.training.ema import EmaConfig
from reason.training.optim import OptimizerConfig

load_parts("settings")

HEADS = {"q_halt": "a halting head (q_halt)", "q_continue": "a continue value (q_continue)"}


class Config(BaseConfig):
    """The whole config of a run; equal configs and data sets give equal runs."""

    name: Outside[str] = Field("custom", pattern=PLAIN, description="the preset it came from: a plain name")
    seed: int = Field(0, ge=0, lt=2**63, description="random seed of weights, data order, augmentation and exploration")
    init_from: Resumable[str | None] = Field(
        None,
        description="a run or a model of the package, whose weights are the initial weights; its puzzle may have other "
        "constraints; none: random initial weights",
    )
    device: Readable[Outside[str]] = Field(
        "auto", pattern=r"^(auto|cpu|mps|cuda(:\d+)?)$", description="auto, cpu, mps, cuda, cuda:1"
    )
    data: DataConfig = DataConfig()
    model: AnyModelConfig = FAMILIES["recursive"].config()
    rollout: RolloutConfig = RolloutConfig()
    loss: AnyLossConfig = Field(default_factory=lambda: loss_config()())
    balance: BalanceConfig = BalanceConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    ema: EmaConfig = EmaConfig()
    training: TrainingConfig = TrainingConfig()
    evaluation: Readable[Outside[EvaluationConfig]] = EvaluationConfig()

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


def refuse_unfit(config: Config) -> None:
    """Raise ConfigError for the first need that is not met; the text names setting, need and fix."""
    loss, model, reasoner = config.loss, config.model, FAMILIES[config.model.kind].model
    model.check(config)
    for name in loss.present:
        term, weight = TERMS[name], f"loss.weights.{name}"
        setting, without = f"{weight}={getattr(loss.weights, name):g}", f"{weight}=0"
        if term.trains in HEADS:
            require(term.trains in model.heads, setting, HEADS[term.trains], without)
        for need in term.needs(config):
            require(need.met, setting, need.what, need.fix, without)
    for name in config.evaluation.asked:
        for need in STUDIES[name].needs(config):
            require(need.met, f"evaluation.studies={name}", need.what, need.fix, "evaluation.studies=[]")

    # Schedules and targets need a term that is present, and every step a term with a weight.
    for key, names in (("loss.schedules", loss.schedules), ("balance.targets", config.balance.targets)):
        for name in names:
            fix = f"loss.weights.{name}=1, or {key}={{}}" if name in TERMS else f"{key}={{}}"
            require(name in loss.present, f"{key}.{name}", f"the loss term {name}", fix)
    steps = config.training.steps
    turns = (turn for schedule in loss.schedules.values() for turn in schedule.turns(steps))
    weighed = all(loss.weights_at(min(turn, steps - 1), steps) for turn in turns)
    require(weighed, "loss.schedules", "a loss term whose weight is not 0 at every step", "loss.schedules={}")
    balanced = config.balance.kind != "fixed"
    require(balanced or not config.balance.targets, "balance.targets", "a balancer", "balance.kind=alg-grad-norm")
    measured, what = issubclass(reasoner, Mapped), "weights at which gradients are measured (Mapped.balance_weights)"
    require(not balanced or measured, f"balance.kind={config.balance.kind}", what, "balance.kind=fixed")

    # A halting rule needs a head that a loss trains.
    halting, without = f"rollout.halting={config.rollout.halting}", "rollout.halting=none"
    for head in {"none": [], "bce": ["q_halt"], "q-learning": ["q_halt", "q_continue"]}[config.rollout.halting]:
        require(head in model.heads, halting, HEADS[head], without)
        require(loss.trains(head), halting, f"a loss that trains {head}", f"loss.weights.{head}=1, or {without}")

    # Networks are compiled one by one, and Muon moves their matrices; a part of x̂ is frozen by the model itself.
    has, networks = reasoner.networks is not Reasoner.networks, "networks to compile one by one (Reasoner.networks)"
    require(has or config.optimizer.kind != "muon", "optimizer.kind=muon", networks, "optimizer.kind=adamw")
    for section in ("training", "evaluation"):
        eager, key = getattr(config, section).compile != "inductor", f"{section}.compile"
        require(has or eager, f"{key}=inductor", networks, f"{key}=none")
    frozen, key = config.optimizer.freeze_embedding_after, "optimizer.freeze_embedding_after"
    what = "an embedding that can be frozen (a method freeze_embedding of the model)"
    require(frozen is None or hasattr(reasoner, "freeze_embedding"), f"{key}={frozen}", what, f"{key}=none")
