"""Registers the studies of every evaluation, which cost nothing, and those that are requested by name."""

from __future__ import annotations

from reason.evaluation.suite import CONSUMERS, SECTIONS
from reason.extensions.studies.difficulty import DIFFICULTY, Difficulty
from reason.extensions.studies.dynamics import DYNAMICS, Dynamics
from reason.extensions.studies.halting import HALTING, HaltingHead
from reason.extensions.studies.policies import POLICIES, Policies
from reason.extensions.studies.restarts import RESTARTS, Restarts

CONSUMERS |= {
    Difficulty: lambda _: True,
    HaltingHead: lambda _: True,
    Policies: lambda evaluator: "policies" in evaluator.settings.asked,
    Restarts: lambda evaluator: "restarts" in evaluator.settings.asked,
    Dynamics: lambda evaluator: "probes" in evaluator.settings.asked,
}
SECTIONS += [DIFFICULTY, HALTING, POLICIES, RESTARTS, DYNAMICS]
