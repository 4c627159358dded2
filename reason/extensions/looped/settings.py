"""Registers the family `looped`, its loss terms and its studies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from reason.evaluation.config import STUDIES, Study
from reason.extensions.looped.exit import exit_entropy, exit_gate_loss, exit_loss, gated_loops
from reason.extensions.looped.jsrr import JsrrConfig, constant_weights, jsrr_loss, l2_loss, norm_penalty
from reason.extensions.looped.model import LoopedConfig, LoopedModel
from reason.extensions.looped.softmax import LargeSoftmax
from reason.losses import TERMS, Term
from reason.losses.lm import IN_PIECES
from reason.models import FAMILIES, Family
from reason.report.measures import MEASURES, Measure
from reason.settings.base import Need
from reason.training.warm_start import BEGINNINGS

if TYPE_CHECKING:
    from reason.config.schema import Config


def _caches(config: Config) -> Iterator[Need]:
    causal = getattr(config.model, "causal", False)
    yield Need(causal, "a causal model with keys and values", "model.causal=true")


IN_PIECES["softmax"] = LargeSoftmax.apply
MEASURES["perplexity_by_step"] = Measure("perplexity", ".4g")
FAMILIES["looped"] = Family(LoopedConfig, LoopedModel)
BEGINNINGS["looped"] = LoopedModel.begun_from
TERMS |= {
    "jsrr": Term(
        jsrr_loss, "STARS: growth of a perturbation in one map, squared; λ of its eq. 4", settings=("rows",),
        section=JsrrConfig, needs=constant_weights, convex=True),
    "l2": Term(l2_loss, "STARS' baseline: distance between the last two states"),
    "exit": Term(
        exit_loss, "Ouro stage I: loss expected under the exit gate, in place of lm",
        settings=("likelihood", "reduction"), needs=gated_loops, trains="gate"),
    "exit_entropy": Term(
        exit_entropy, "Ouro stage I: β of −H(p), p the exit gate's distribution", settings=("reduction",),
        needs=gated_loops, trains="gate"),
    "exit_gate": Term(
        exit_gate_loss, "Ouro stage II: trains the gate on the improvement by each loop",
        settings=("likelihood", "reduction"), needs=gated_loops, trains="gate"),
    "norm_penalty": Term(norm_penalty, "blind spot: mean square of the states (paper: 0.01)"),
}  # fmt: skip
STUDIES["blind_spot"] = Study("measure the readout blind spot in float64: norms, radial gradients, clamps", plain=True)
STUDIES["caches"] = Study("decode causal models with each way of sharing keys and values", _caches)
