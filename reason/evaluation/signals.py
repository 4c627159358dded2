"""What a step says of itself: how sure it is, and how much still moves. Stopping policies are thresholds on these.

Every signal is (B,) and grows with sureness: a policy stops a row at the first step where it exceeds the threshold.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from reason.evaluation.probes import residual
from reason.losses.lm import Likelihood, probabilities
from reason.models.base import IGNORE, Readout, State
from reason.rollout import Halting

SIGNALS = {
    "q": "halting head: q_halt (of Q-learning: q_halt − q_continue)",
    "margin": "logit margin, mean over the scored cells of top1 − top2",
    "max-probability": "mean over the scored cells of the largest probability",
    "certainty": "1 − H/log V, mean over the scored cells",
    "residual": "−‖z_k − z_{k−1}‖/‖z_{k−1}‖",
}


def halt_signal(readout: Readout, halting: Halting) -> Tensor | None:
    """What the halting head compares with 0; None: the model has none, or nothing trains it."""
    if readout.halt is None or halting in ("none", "gate"):
        return None
    if halting == "q-learning" and readout.go_on is not None:
        return (readout.halt - readout.go_on).float()
    return readout.halt.float()


def signals(
    before: State, after: State, readout: Readout, labels: Tensor, likelihood: Likelihood, halting: Halting
) -> dict[str, Tensor]:
    """Every signal of SIGNALS that the model has, (B,) float32, and `loss`, the mean −ln p of the scored cells.

    Of the labels only their places are looked at for the signals: what the set scores.
    """
    scored = labels != IGNORE
    count = scored.sum(-1).clamp(min=1)
    p = probabilities(readout.logits, likelihood)
    top = readout.logits.float().topk(min(2, p.shape[-1]), dim=-1).values
    entropy = -(p * p.clamp(min=torch.finfo(p.dtype).tiny).log()).sum(-1) / math.log(max(p.shape[-1], 2))
    right = p.gather(-1, labels.clamp(min=0).unsqueeze(-1)).squeeze(-1)

    def mean(cells: Tensor) -> Tensor:
        return (torch.where(scored, cells, 0.0).sum(-1) / count).float()

    found = {
        "margin": mean(top[..., 0] - top[..., -1]),
        "max-probability": mean(p.amax(-1)),
        "certainty": mean(1 - entropy),
        "residual": -residual(before, after).float(),
        "loss": mean(-right.clamp(min=torch.finfo(p.dtype).tiny).log()),
    }
    q = halt_signal(readout, halting)
    return found if q is None else {"q": q} | found
