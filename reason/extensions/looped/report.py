"""Perplexity, exits, shared caches and the readout's blind spot in an evaluation."""

from __future__ import annotations

from reason.evaluation.suite import CONSUMERS, SECTIONS
from reason.extensions.looped.studies.blind_spot import BLIND_SPOT, BlindSpot
from reason.extensions.looped.studies.caches import CACHES, Caches
from reason.extensions.looped.studies.exits import EXITS, ExitGate
from reason.extensions.looped.studies.perplexity import PERPLEXITY, Perplexity, is_text

CONSUMERS[Perplexity] = is_text
CONSUMERS[ExitGate] = lambda evaluator: getattr(evaluator.model, "gate", None) is not None
CONSUMERS[Caches] = lambda evaluator: "caches" in evaluator.settings.asked
CONSUMERS[BlindSpot] = lambda evaluator: "blind_spot" in evaluator.settings.asked
SECTIONS += [PERPLEXITY, EXITS, CACHES, BLIND_SPOT]
