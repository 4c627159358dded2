"""Signals of a step: confidence, and size of the update. Stopping policies are thresholds on these.

Every signal is (B,) and grows with sureness: a policy stops a row at the first step where it exceeds the threshold.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from reason.evaluation.states import residual
from reason.evaluation.studies.by_step import halt_signal, scored_mean
from reason.losses.lm import Likelihood, probabilities
from reason.rollout import Halting, StepRecord

Past = dict[str, Tensor]  # what a signal keeps of a batch's earlier steps, (B, …) each; empty at the first


class Reading(NamedTuple):
    """A step, what its heads were trained for, and what the signals keep from step to step."""

    record: StepRecord
    likelihood: Likelihood
    halting: Halting | None
    past: Past

    def mean(self, cells: Tensor) -> Tensor:
        """(B,) the mean of (B, S) over the scored cells: of the labels a signal looks at the places alone."""
        return scored_mean(cells, self.record.batch.labels)

    @property
    def p(self) -> Tensor:
        """(B, S, V) the probabilities of the tokens."""
        return probabilities(self.record.logits, self.likelihood)


def _margin(step: Reading) -> Tensor:
    """Mean over the scored cells of the largest logit less the second."""
    logits = step.record.logits.float()
    top = logits.topk(min(2, logits.shape[-1]), dim=-1).values
    return step.mean(top[..., 0] - top[..., -1])


def _certainty(step: Reading) -> Tensor:
    """1 − H/log V, mean over the scored cells."""
    p = step.p
    entropy = -(p * p.clamp(min=torch.finfo(p.dtype).tiny).log()).sum(-1)
    return step.mean(1 - entropy / math.log(max(p.shape[-1], 2)))


OF_THE_PASS = ("q", "residual")  # signals whose columns every evaluation has, by the core's consumer `Signals`
SIGNALS: dict[str, Callable[[Reading], Tensor | None]] = {  # None: the model has no such signal; others may be added
    "q": lambda step: halt_signal(step.record.readout, step.halting),
    "margin": _margin,
    "max-probability": lambda step: step.mean(step.p.amax(-1)),
    "certainty": _certainty,
    "residual": lambda step: -residual(step.record.before, step.record.state).float(),
}
