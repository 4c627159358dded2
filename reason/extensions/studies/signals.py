"""Signals of a step: confidence, and size of the update. Stopping policies are thresholds on these.

Every signal is (B,) and grows with sureness: a policy stops a row at the first step where it exceeds the threshold.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from reason.evaluation.studies.by_step import scored_mean
from reason.losses.lm import Likelihood, probabilities
from reason.rollout import StepRecord

Past = dict[str, Tensor]  # what a signal keeps of a batch's earlier steps, (B, …) each; empty at the first


class Reading(NamedTuple):
    """A step, and what the signals keep from step to step."""

    record: StepRecord
    likelihood: Likelihood
    past: Past

    def mean(self, cells: Tensor) -> Tensor:
        """(B,) the mean of (B, S) over the scored cells: of the labels a signal looks only at the places."""
        return scored_mean(cells, self.record.batch.labels)

    @property
    def p(self) -> Tensor:
        """(B, S, V) the probabilities of the tokens."""
        return probabilities(self.record.logits, self.likelihood)


def _margin(step: Reading) -> Tensor:
    """Mean over the scored cells of the largest logit less the second."""
    top = step.record.logits.float().topk(2, dim=-1).values
    return step.mean(top[..., 0] - top[..., 1])


def _certainty(step: Reading) -> Tensor:
    """1 − H/log V, mean over the scored cells."""
    p = step.p
    entropy = -(p * p.clamp(min=torch.finfo(p.dtype).tiny).log()).sum(-1)
    return step.mean(1 - entropy / math.log(p.shape[-1]))


def _step(step: Reading) -> Tensor:
    """The number of the step: a policy of a fixed number of steps."""
    answer = step.record.answer
    return torch.full((len(answer),), float(step.record.step), device=answer.device)


Signal = Callable[[Reading], Tensor | None]  # None: the model has no such signal
SIGNALS: dict[str, Signal | None] = {  # None: its column is kept by the core's consumer `Signals`; others may be added
    "fixed": _step,
    "q": None,
    "margin": _margin,
    "max-probability": lambda step: step.mean(step.p.amax(-1)),
    "certainty": _certainty,
    "residual": None,
}
