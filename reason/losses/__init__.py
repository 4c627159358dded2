"""Loss terms: each a function of one Unroll that returns a float32 scalar. Only `weighted_sum` combines them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, NamedTuple

import torch
from pydantic import ConfigDict, Field, ValidationError, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import InitErrorDetails
from torch import Tensor

import reason.settings.capabilities as can
from reason.errors import ConfigError
from reason.losses.equilibrium import equilibrium_x, equilibrium_z
from reason.losses.exit import exit_entropy, exit_gate_loss, exit_loss
from reason.losses.halting import halt_loss, q_continue_loss
from reason.losses.jsrr import JsrrConfig, jsrr_loss, l2_loss
from reason.losses.lm import Likelihood, Reduction, lm_loss
from reason.losses.repulsion import repulsion_x, repulsion_z, repulsion_z_l
from reason.losses.scale import norm_penalty
from reason.losses.stability import TraceConfig, rh_stable_z, rh_unstable_x
from reason.rollout import Unroll
from reason.settings.base import BaseConfig
from reason.settings.schedules import Horizon, ScheduleConfig


class Term(NamedTuple):
    """A loss term, `function(unroll, *settings)` → a float32 scalar, and its metadata."""

    function: Callable[..., Tensor]
    description: str
    weight: float = 0.0  # default λ
    settings: tuple[str, ...] = ()  # fields of LossConfig that are passed to the function
    needs: tuple[can.Capability, ...] = ()
    gives: tuple[can.Capability, ...] = ()  # capabilities that a run gains by training with this term
    compares_rows: bool = False


class LossWeights(BaseConfig):
    """λ of each term of TERMS; 0 leaves it out, at no cost."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Annotated[float, Field(ge=0)]]

    @classmethod
    def settings(cls) -> dict[str, FieldInfo]:
        """One setting for each term."""
        fields = {name: Field(term.weight, ge=0, description=term.description) for name, term in TERMS.items()}
        return {name: FieldInfo.from_annotated_attribute(float, field) for name, field in fields.items()}

    @model_validator(mode="before")
    @classmethod
    def _of_every_term(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        if strangers := [name for name in given if name not in TERMS]:
            errors = [InitErrorDetails(type="extra_forbidden", loc=(name,), input=given[name]) for name in strangers]
            raise ValidationError.from_exception_data(cls.__name__, errors)
        return {name: term.weight for name, term in TERMS.items()} | given


class LossConfig(BaseConfig):
    """The loss terms, their weights and their settings."""

    likelihood: Likelihood = Field("stablemax", description="what turns logits into probabilities")
    reduction: Reduction = Field(
        "row",
        description="average of lm, and of exit terms with a gate per position: row: over the labelled cells of each "
        "row, then over the rows (HRM, TRM); token: over all labelled cells of the batch (STARS)",
    )
    weights: LossWeights = Field(default_factory=LossWeights)
    jsrr: JsrrConfig = JsrrConfig()
    trace: TraceConfig = TraceConfig()
    schedules: dict[str, ScheduleConfig] = Field(
        {}, description='schedule of a term\'s weight: {"TERM": {"kind": …}}, with the keys of optimizer.schedule'
    )

    @model_validator(mode="after")
    def _something_to_learn(self) -> LossConfig:
        if not any(weight for _, weight in self.weights):
            raise ValueError("every loss weight is 0, so nothing would be learned: type loss.weights.lm=1")
        return self

    @model_validator(mode="after")
    def _leaves_lm_a_weight(self) -> LossConfig:
        peak = dict(self.weights)["jsrr"] * (self.schedules["jsrr"].peak if "jsrr" in self.schedules else 1.0)
        if self.jsrr.convex and peak >= 1:
            raise ValueError(
                f"weights.jsrr comes to λ = {peak:g}, which leaves 1 − λ ≤ 0 to LM: type loss.weights.jsrr=0.1, or "
                "loss.jsrr.convex=false for LM + λ·JSRR"
            )
        return self

    @model_validator(mode="after")
    def _something_stays(self) -> LossConfig:
        if all(name in self.schedules and self.schedules[name].vanishes for name in self.present):
            raise ValueError("schedules: every term's share is 0 at some time; leave one term without such a schedule")
        return self

    def capabilities(self) -> can.Offers:
        """The terms that take part, what each of them trains, and whether there are several."""
        offers: can.Offers = {can.SEVERAL_TERMS: len(self.present) > 1 or "loss.weights.TERM=1"}
        for name, term in TERMS.items():
            here = name in self.present or f"loss.weights.{name}=1"
            offers |= {given: here for given in (can.term(name), *term.gives) if offers.get(given) is not True}
        return offers

    def needs(self) -> list[can.Need]:
        """What the terms that take part ask for."""
        found = [can.Need(f"loss.schedules.{name}", can.term(name), "loss.schedules={}") for name in self.schedules]
        for name in self.present:
            setting, without = f"loss.weights.{name}={getattr(self.weights, name):g}", f"loss.weights.{name}=0"
            found += [can.Need(setting, needed, without) for needed in TERMS[name].needs]
            if name == "exit_gate":  # it teaches the loops from 2 to the last but one
                found.append(can.Need(setting, can.TRAINED_STEPS, f"rollout.loops.count=4, or {without}", 3))
            if name == "jsrr" and self.jsrr.convex:
                found.append(can.Need("loss.jsrr.convex=true", can.CONSTANT_WEIGHTS, "loss.jsrr.convex=false"))
        return found

    def unused(self) -> dict[str, str]:
        """Settings that only terms of weight 0 would use."""
        taken = {setting for name in self.present for setting in TERMS[name].settings}
        users: dict[str, list[str]] = {}
        for name, term in TERMS.items():
            for setting in term.settings:
                users.setdefault(setting, []).append(name)
        return {s: f"no {' or '.join(names)} in this loss, to use it" for s, names in users.items() if s not in taken}

    def used_with(self) -> dict[str, can.Capability]:
        """The loss weights: a balancer ignores their values and starts from λ = 1."""
        return {f"weights.{name}": can.CONSTANT_WEIGHTS for name in self.present}

    def per_process(self) -> list[str]:
        """Terms that compare rows, and those that draw."""
        compared = [f"loss.weights.{name}" for name in self.present if TERMS[name].compares_rows]
        reasons = [f"{', '.join(compared)}: rows are compared within each process alone"] if compared else []
        first = {"jsrr": self.jsrr.rows, "trace": self.trace.rows}
        taken = {setting for name in self.present for setting in TERMS[name].settings} & first.keys()
        if taken:
            reasons.append("the random directions of Jacobian terms are drawn per process")
        if few := [f"loss.{section}.rows" for section, rows in first.items() if rows and section in taken]:
            reasons.append(f"{', '.join(few)}: so many rows of each process stand for all")
        if self.reduction == "token":
            reasons.append("loss.reduction=token: the mean is over each process's own cells")
        return reasons

    @property
    def present(self) -> list[str]:
        """The terms that take part in the run at some time: those whose configured weight is not 0."""
        return [name for name, weight in self.weights if weight]

    def shares_at(self, step: int, horizon: Horizon) -> dict[str, float]:
        """Each present term's share of its weight at optimizer step `step` (from 0); 1 without a schedule."""
        bent = self.schedules
        return {name: bent[name].factor(step, horizon) if name in bent else 1.0 for name in self.present}

    def weights_at(self, step: int, horizon: Horizon) -> dict[str, float]:
        """λ of each term at optimizer step `step` (from 0); terms whose λ is 0 then are left out.

        Where `jsrr.convex`, JSRR's λ at that step is taken from LM's weight (STARS eq. 4).
        """
        shares = self.shares_at(step, horizon)
        weights = {name: getattr(self.weights, name) * share for name, share in shares.items() if share}
        if self.jsrr.convex and "lm" in weights:
            weights["lm"] *= 1 - weights.get("jsrr", 0.0)
        return weights


GATE = (can.trained(can.EXIT_GATE), can.LEARNED_GATE)
TERMS: dict[str, Term] = {  # a term of one's own is one entry more
    "lm": Term(lm_loss, "cross-entropy of the cells", weight=1.0, settings=("likelihood", "reduction")),
    "q_halt": Term(
        halt_loss, "BCE of q_halt against 'row exact'", weight=0.5, needs=(can.HALTING_HEAD,),
        gives=(can.trained(can.HALTING_HEAD),)),
    "q_continue": Term(
        q_continue_loss, "HRM's BCE of q_continue against its bootstrapped target",
        needs=(can.Q_CONTINUE, can.NEXT_READOUT), gives=(can.trained(can.Q_CONTINUE),)),
    "jsrr": Term(
        jsrr_loss, "STARS: growth of a perturbation in one map, squared; λ of its eq. 4", settings=("jsrr",),
        needs=(can.MAPS,)),
    "l2": Term(l2_loss, "STARS' baseline: how far the last loop moves the state"),
    "equil_x": Term(equilibrium_x, "x̂ as a fixed point (CMM: 1)", needs=(can.MAPS,)),
    "equil_z": Term(equilibrium_z, "the solution z_H as a fixed point (CMM: 1)", needs=(can.MAPS,)),
    "rh_unstable_x": Term(
        rh_unstable_x, "Routh-Hurwitz: x̂ unstable, judged by the trace only (CMM: 10)", settings=("trace",),
        needs=(can.MAPS,)),
    "rh_stable_z": Term(
        rh_stable_z, "Routh-Hurwitz: z_H stable, judged by the trace only (CMM: 1e4)", settings=("trace",),
        needs=(can.MAPS,)),
    "rep_x": Term(repulsion_x, "encoded puzzles x̂ repel each other (CMM: 1e3)", compares_rows=True),
    "rep_z": Term(repulsion_z, "high states z_H repel each other (CMM: 1e3)", compares_rows=True),
    "rep_z_l": Term(repulsion_z_l, "low states z_L repel each other", needs=(can.LOW_STATE,), compares_rows=True),
    "exit": Term(
        exit_loss, "Ouro stage I: loss expected under the exit gate, in place of lm",
        settings=("likelihood", "reduction"), needs=(can.EXIT_GATE, can.SEVERAL_READOUTS), gives=GATE),
    "exit_entropy": Term(
        exit_entropy, "Ouro stage I: β of −H(p), p the exit gate's distribution", settings=("reduction",),
        needs=(can.EXIT_GATE, can.SEVERAL_READOUTS), gives=GATE),
    "exit_gate": Term(
        exit_gate_loss, "Ouro stage II: the gate against what another loop gained",
        settings=("likelihood", "reduction"), needs=(can.EXIT_GATE, can.EVERY_READOUT), gives=GATE),
    "norm_penalty": Term(norm_penalty, "blind spot: mean square of the states (paper: 0.01)"),
}  # fmt: skip


def evaluate_terms(unroll: Unroll, config: LossConfig, names: Iterable[str]) -> dict[str, Tensor]:
    """The named terms, each a float32 scalar.

    Raises:
        ConfigError: a term's function returned something else than one number in a tensor.
    """
    terms = {}
    for name in names:
        term = TERMS[name].function(unroll, *(getattr(config, setting) for setting in TERMS[name].settings))
        if not isinstance(term, Tensor) or term.ndim:
            got = f"shape {tuple(term.shape)}" if isinstance(term, Tensor) else type(term).__name__
            raise ConfigError(f"the function of loss.weights.{name} returned {got}; a tensor without dimensions is due")
        terms[name] = term.float()
    return terms


def weighted_sum(terms: Mapping[str, Tensor], weights: Mapping[str, float | Tensor]) -> Tensor:
    """Σ λ_n L_n."""
    return torch.stack([weights[name] * loss for name, loss in terms.items()]).sum()
