"""Loss terms: each a function of one Unroll that returns a float32 scalar. They meet in balance.py alone."""

from __future__ import annotations

from collections.abc import Callable

from pydantic import Field, model_validator
from torch import Tensor

from reason.losses.halting import halt_loss, q_continue_loss
from reason.losses.lm import Likelihood, lm_loss
from reason.rollout import Unroll
from reason.section import Section


class LossWeights(Section):
    """λ of each term; 0 leaves it out, at no cost."""

    lm: float = Field(1.0, ge=0, description="cross-entropy of the cells")
    halt: float = Field(0.5, ge=0, description="BCE of q_halt against 'row exact'")
    q_continue: float = Field(0.0, ge=0, description="HRM's BCE of q_continue against its bootstrapped target")


class LossConfig(Section):
    """Which terms, how heavy, and of what kind."""

    likelihood: Likelihood = Field("stablemax", description="what turns logits into probabilities")
    weights: LossWeights = LossWeights()

    @model_validator(mode="after")
    def _something_to_learn(self) -> LossConfig:
        if not any(weight for _, weight in self.weights):
            raise ValueError("every loss weight is 0, so nothing would be learned: type loss.weights.lm=1")
        return self


Term = Callable[[Unroll, LossConfig], Tensor]

TERMS: dict[str, Term] = {
    "lm": lambda unroll, config: lm_loss(unroll, config.likelihood),
    "halt": lambda unroll, config: halt_loss(unroll),
    "q_continue": lambda unroll, config: q_continue_loss(unroll),
}


def evaluate_terms(unroll: Unroll, config: LossConfig) -> dict[str, Tensor]:
    """Every term whose weight is not 0, by name, each a float32 scalar."""
    return {name: TERMS[name](unroll, config) for name, weight in config.weights if weight}
