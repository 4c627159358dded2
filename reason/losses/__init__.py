"""Loss terms: each a function of one Unroll that returns a float32 scalar. They meet in balance.py alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pydantic import Field, model_validator
from torch import Tensor

from reason.config.base import BaseConfig
from reason.config.schedules import Horizon, ScheduleConfig
from reason.losses.equilibrium import equilibrium_x, equilibrium_z
from reason.losses.exit import ExitConfig, exit_entropy, exit_gate_loss, exit_loss
from reason.losses.halting import halt_loss, q_continue_loss
from reason.losses.jsrr import JsrrConfig, L2Config, jsrr_loss, l2_loss
from reason.losses.lm import Likelihood, lm_loss
from reason.losses.repulsion import repulsion_x, repulsion_z, repulsion_z_l
from reason.losses.scale import norm_penalty
from reason.losses.stability import TraceConfig, rh_stable_z, rh_unstable_x
from reason.rollout import Unroll


class LossWeights(BaseConfig):
    """λ of each term; 0 leaves it out, at no cost."""

    lm: float = Field(1.0, ge=0, description="cross-entropy of the cells")
    q_halt: float = Field(0.5, ge=0, description="BCE of q_halt against 'row exact'")
    q_continue: float = Field(0.0, ge=0, description="HRM's BCE of q_continue against its bootstrapped target")
    jsrr: float = Field(0.0, ge=0, description="STARS: growth of a perturbation in one map, squared; λ of its eq. 4")
    l2: float = Field(0.0, ge=0, description="STARS' baseline: how far the last loop moves the state")
    equil_x: float = Field(0.0, ge=0, description="x̂ a point of rest (CMM: 1)")
    equil_z: float = Field(0.0, ge=0, description="the solution z_H a point of rest (CMM: 1)")
    rh_unstable_x: float = Field(0.0, ge=0, description="Routh-Hurwitz: x̂ repels, by the trace alone (CMM: 10)")
    rh_stable_z: float = Field(0.0, ge=0, description="Routh-Hurwitz: z_H attracts, by the trace alone (CMM: 1e4)")
    rep_x: float = Field(0.0, ge=0, description="encoded puzzles x̂ repel each other (CMM: 1e3)")
    rep_z: float = Field(0.0, ge=0, description="high states z_H repel each other (CMM: 1e3)")
    rep_z_l: float = Field(0.0, ge=0, description="low states z_L repel each other")
    exit: float = Field(0.0, ge=0, description="Ouro stage I: loss expected under the exit gate, in place of lm")
    exit_entropy: float = Field(0.0, ge=0, description="Ouro stage I: β of −H(p), p the exit gate's distribution")
    exit_gate: float = Field(0.0, ge=0, description="Ouro stage II: the gate against what another loop gained")
    norm_penalty: float = Field(0.0, ge=0, description="blind spot: mean square of the states (paper: 0.01)")


class LossConfig(BaseConfig):
    """Which terms, how heavy, and of what kind."""

    likelihood: Likelihood = Field("stablemax", description="what turns logits into probabilities")
    weights: LossWeights = LossWeights()
    jsrr: JsrrConfig = JsrrConfig()
    l2: L2Config = L2Config()
    trace: TraceConfig = TraceConfig()
    schedules: dict[str, ScheduleConfig] = Field(
        {}, description='a term\'s weight in the course of the run: {"TERM": {"kind": …}}, keys as optimizer.schedule'
    )

    exit: ExitConfig = ExitConfig()

    @model_validator(mode="after")
    def _something_to_learn(self) -> LossConfig:
        if not any(weight for _, weight in self.weights):
            raise ValueError("every loss weight is 0, so nothing would be learned: type loss.weights.lm=1")
        return self

    @model_validator(mode="after")
    def _leaves_lm_a_weight(self) -> LossConfig:
        peak = self.weights.jsrr * (self.schedules["jsrr"].peak if "jsrr" in self.schedules else 1.0)
        if self.jsrr.convex and peak >= 1:
            raise ValueError(
                f"weights.jsrr comes to λ = {peak:g}, which leaves 1 − λ ≤ 0 to LM: type loss.weights.jsrr=0.1, or "
                "loss.jsrr.convex=false for LM + λ·JSRR"
            )
        return self

    @model_validator(mode="after")
    def _schedules_bend_weights(self) -> LossConfig:
        known = type(self.weights).model_fields
        for name in self.schedules:
            if name not in known:
                raise ValueError(f"schedules: no term is called {name}; terms are {', '.join(known)}")
            if getattr(self.weights, name) == 0:
                raise ValueError(f"schedules: {name} has weight 0, which no schedule bends: type loss.weights.{name}=1")
        if all(name in self.schedules and self.schedules[name].vanishes for name in self.present):
            raise ValueError("schedules: every term's share is 0 at some time; leave one term without such a schedule")
        return self

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


Term = Callable[[Unroll, LossConfig], Tensor]

TERMS: dict[str, Term] = {
    "lm": lambda unroll, config: lm_loss(unroll, config.likelihood),
    "q_halt": lambda unroll, config: halt_loss(unroll),
    "q_continue": lambda unroll, config: q_continue_loss(unroll),
    "jsrr": lambda unroll, config: jsrr_loss(unroll, config.jsrr),
    "l2": lambda unroll, config: l2_loss(unroll, config.l2),
    "equil_x": lambda unroll, config: equilibrium_x(unroll),
    "equil_z": lambda unroll, config: equilibrium_z(unroll),
    "rh_unstable_x": lambda unroll, config: rh_unstable_x(unroll, config.trace),
    "rh_stable_z": lambda unroll, config: rh_stable_z(unroll, config.trace),
    "rep_x": lambda unroll, config: repulsion_x(unroll),
    "rep_z": lambda unroll, config: repulsion_z(unroll),
    "rep_z_l": lambda unroll, config: repulsion_z_l(unroll),
    "exit": lambda unroll, config: exit_loss(unroll, config.likelihood),
    "exit_entropy": lambda unroll, config: exit_entropy(unroll),
    "exit_gate": lambda unroll, config: exit_gate_loss(unroll, config.exit, config.likelihood),
    "norm_penalty": lambda unroll, config: norm_penalty(unroll),
}


def evaluate_terms(unroll: Unroll, config: LossConfig, names: Iterable[str]) -> dict[str, Tensor]:
    """The named terms, each a float32 scalar."""
    return {name: TERMS[name](unroll, config).float() for name in names}
