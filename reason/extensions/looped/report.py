"""Exits, shared caches and the readout's blind spot in an evaluation; the exit gate as a stopping policy."""

from __future__ import annotations

from reason.evaluation.signals import ADDED, SIGNALS
from reason.evaluation.suite import CONSUMERS, SECTIONS
from reason.extensions.looped.studies.blind_spot import BLIND_SPOT, BlindSpot
from reason.extensions.looped.studies.caches import CACHES, Caches
from reason.extensions.looped.studies.exits import EXITS, ExitGate, left

CONSUMERS[ExitGate] = lambda evaluator: evaluator.heads.gate is not None
CONSUMERS[Caches] = lambda evaluator: evaluator.settings.caches
CONSUMERS[BlindSpot] = lambda evaluator: evaluator.settings.blind_spot
SECTIONS[-1:-1] = [EXITS, CACHES, BLIND_SPOT]  # before the training
SIGNALS["gate"] = "exit gate: mean over the scored cells of the probability of having left, 1 − Π(1 − λ)"
ADDED["gate"] = left
