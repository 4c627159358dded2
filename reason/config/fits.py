"""Requirements of the sections of a config on each other; each section checks its own settings itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from reason.evaluation.config import STUDIES
from reason.losses import TERMS
from reason.settings.base import require

if TYPE_CHECKING:
    from reason.config.schema import Config

Requirement = tuple[bool, str, str, str]  # met, setting, what it needs, the fix: what to type


def refuse_unfit(config: Config) -> None:
    """Raises ConfigError for the first need that is not met: the setting, what it needs, what to type."""
    config.model.check(config)
    for name in config.loss.present:
        weight = f"loss.weights.{name}"
        for need in TERMS[name].needs(config):
            require(need.met, f"{weight}={getattr(config.loss.weights, name):g}", need.what, need.mend, f"{weight}=0")
    for name in config.evaluation.asked:
        for need in STUDIES[name].needs(config):
            require(need.met, f"evaluation.studies={name}", need.what, need.mend, "evaluation.studies=[]")
    for met, setting, what, mend in _needs(config):
        require(met, setting, what, mend)


def _needs(config: Config) -> Iterator[Requirement]:
    loss, heads, model, has = config.loss, config.model.heads, config.model, config.model_has

    # Schedules and targets are those of terms that are there.
    for key, names in (("loss.schedules", loss.schedules), ("balance.targets", config.balance.targets)):
        for name in names:
            mend = f"loss.weights.{name}=1, or {key}={{}}"
            yield name in loss.present, f"{key}.{name}", f"the loss term {name}", mend
    balanced = config.balance.kind != "fixed"
    yield balanced or not config.balance.targets, "balance.targets", "a balancer", "balance.kind=alg-grad-norm"
    what = "weights at which gradients are measured (Reasoner.balance_weights)"
    yield not balanced or has("balance_weights"), f"balance.kind={config.balance.kind}", what, "balance.kind=fixed"

    # A halting rule reads a head that a loss trains.
    halting, without = f"rollout.halting={config.rollout.halting}", "rollout.halting=none"
    read = {"none": [], "bce": ["q_halt"], "q-learning": ["q_halt", "q_continue"]}[config.rollout.halting]
    for head, what in (("q_halt", "a halting head (q_halt)"), ("q_continue", "a value of going on (q_continue)")):
        yield head not in read or head in heads, halting, what, without
        mend = f"loss.weights.{head}=1, or {without}"
        yield head not in read or loss.trains(head), halting, f"a loss that trains {head}", mend

    # Several loops need a gradient through all of them.
    several, stops = config.rollout.loops.several, model.gradient_crosses_steps
    what = "a gradient from one step of the model to the one before"
    yield not several or stops is None, f"rollout.loops.{several}", what, stops or ""

    # Networks are compiled one by one, Muon moves their matrices; mixed precision and a part of x̂ are a family's own.
    networks = "networks to compile one by one (Reasoner.networks)"
    without_muon = config.optimizer.kind != "muon"
    yield without_muon or has("networks"), "optimizer.kind=muon", networks, "optimizer.kind=adamw"
    for section in ("training", "evaluation"):
        eager, key = getattr(config, section).compile != "inductor", f"{section}.compile"
        yield eager or has("networks"), f"{key}=inductor", networks, f"{key}=none"
    precision = config.training.precision
    mixed = model.mixed_precision or not precision.startswith("amp")
    what = "products in mixed precision (Reasoner.autocast)"
    yield mixed, f"training.precision={precision}", what, "training.precision=auto"
    frozen, key = config.optimizer.freeze_embedding_after, "optimizer.freeze_embedding_after"
    what = "an embedding that can be frozen alone"
    yield frozen is None or has("freeze_embedding"), f"{key}={frozen}", what, f"{key}=none"
