"""What the sections of a config ask of each other, beside what each asks of its own settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reason.evaluation.config import STUDIES
from reason.losses import TERMS
from reason.settings.base import require

if TYPE_CHECKING:
    from reason.config.schema import Config


def refuse_unfit(config: Config) -> None:
    """Raises ConfigError for the first need that is not met: the setting, what it needs, what to type."""
    config.model.check(config)
    for name in config.loss.present:
        weight = f"loss.weights.{name}"
        for need in TERMS[name].needs(config):
            require(need.met, f"{weight}={getattr(config.loss.weights, name):g}", need.what, need.mend, f"{weight}=0")
    for name in config.loss.schedules:
        there, weight = name in config.loss.present, f"loss.weights.{name}=1"
        require(there, f"loss.schedules.{name}", f"the loss term {name}", weight, "loss.schedules={}")
    for name in config.evaluation.asked:
        for need in STUDIES[name].needs(config):
            require(need.met, f"evaluation.studies={name}", need.what, need.mend, "evaluation.studies=[]")
    _halting(config)
    _loops(config)
    _balance(config)
    _compiled(config)
    optimizer = config.optimizer
    if optimizer.freeze_embedding_after is not None:
        setting = f"optimizer.freeze_embedding_after={optimizer.freeze_embedding_after:g}"
        there = config.model_has("freeze_embedding")
        require(there, setting, "an embedding that can be frozen alone", "optimizer.freeze_embedding_after=none")
    if isinstance(every := config.evaluation.decimation, int):
        causal = getattr(config.model, "causal", False)
        mends = "model.causal=false", "evaluation.decimation=none"
        require(not causal, f"evaluation.decimation={every}", "a model that sees all cells at once", *mends)


def _halting(config: Config) -> None:
    """A halting rule needs the head that it reads, and a loss that trains it."""
    setting, without = f"rollout.halting={config.rollout.halting}", "rollout.halting=none"
    heads, loss = config.model.heads, config.loss
    match config.rollout.halting:
        case "bce" | "q-learning" as rule:
            require("q_halt" in heads, setting, "a halting head (q_halt)", without)
            trained = loss.trains("q_halt")
            require(trained, setting, "a loss that trains a halting head", "loss.weights.q_halt=1", without)
            if rule == "q-learning":
                require("q_continue" in heads, setting, "a value of going on (q_continue)", without)
                trained = loss.trains("q_continue")
                require(trained, setting, "a loss that trains q_continue", "loss.weights.q_continue=1", without)


def _loops(config: Config) -> None:
    """Several loops need a gradient through all of them."""
    several, mend = config.rollout.loops.several, config.model.gradient_crosses_steps
    if several:
        what = "a gradient from one step of the model to the one before"
        require(mend is None, f"rollout.loops.{several}", what, mend or "")


def _balance(config: Config) -> None:
    """A balancer needs weights at which it measures gradients; targets need a balancer and their terms."""
    balance = config.balance
    if balance.kind != "fixed":
        what = "weights at which gradients are measured (Reasoner.balance_weights)"
        require(config.model_has("balance_weights"), f"balance.kind={balance.kind}", what, "balance.kind=fixed")
    for name in balance.targets:
        mends = "balance.kind=alg-grad-norm", "balance.targets={}"
        require(balance.kind != "fixed", f"balance.targets={balance.targets}", "a balancer", *mends)
        mends = f"loss.weights.{name}=1", "balance.targets={}"
        require(name in config.loss.present, f"balance.targets.{name}", f"the loss term {name}", *mends)


def _compiled(config: Config) -> None:
    """Networks are compiled one by one, and Muon moves their matrices; mixed precision is a family's own work."""
    for asked, setting, without in (
        (config.optimizer.kind == "muon", "optimizer.kind=muon", "optimizer.kind=adamw"),
        (config.training.compile == "inductor", "training.compile=inductor", "training.compile=none"),
        (config.evaluation.compile == "inductor", "evaluation.compile=inductor", "evaluation.compile=none"),
    ):
        there = not asked or config.model_has("networks")
        require(there, setting, "networks to compile one by one (Reasoner.networks)", without)
    precision = config.training.precision
    mixed = config.model.mixed_precision or not precision.startswith("amp")
    what = "products in mixed precision (Reasoner.autocast)"
    require(mixed, f"training.precision={precision}", what, "training.precision=auto")
