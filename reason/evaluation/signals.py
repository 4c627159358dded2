"""Signals of a step: confidence, and size of the update. Stopping policies are thresholds on these.

Every signal is (B,) and grows with sureness: a policy stops a row at the first step where it exceeds the threshold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from reason.evaluation.evaluator import Columns, Consumer, Evaluator, StepColumns
from reason.evaluation.probes import residual
from reason.losses.lm import Likelihood, probabilities
from reason.models.base import IGNORE, Readout
from reason.rollout import Halting, StepRecord, exact_logit

SIGNALS = {
    "q": "halting head: q_halt (of Q-learning: q_halt − q_continue)",
    "margin": "logit margin, mean over the scored cells of top1 − top2",
    "max-probability": "mean over the scored cells of the largest probability",
    "certainty": "1 − H/log V, mean over the scored cells",
    "residual": "−‖z_k − z_{k−1}‖/‖z_{k−1}‖",
}

Past = dict[str, Tensor]  # what a signal keeps of a batch's earlier steps, (B, …) each; empty at the first
ADDED: dict[str, Callable[[StepRecord, Past], Tensor | None]] = {}  # functions of signals that are entered in SIGNALS

LOSS = "loss"  # beside the signals: −ln p
OF_PROBABILITIES = ("max-probability", "certainty", LOSS)


def halt_signal(readout: Readout, halting: Halting | None) -> Tensor | None:
    """What the halting head compares with 0: q_halt, under Q-learning q_halt − q_continue; None as in `exact_logit`."""
    q = exact_logit(readout, halting)
    if q is None or halting != "q-learning" or readout.q_continue is None:
        return q
    return q - readout.q_continue.float()


def signals(
    record: StepRecord,
    likelihood: Likelihood,
    halting: Halting | None,
    past: Past | None = None,
    names: Iterable[str] = (*SIGNALS, LOSS),
) -> dict[str, Tensor]:
    """Those of `names` that the model has, (B,) float32: signals, and `loss`, the mean −ln p of the scored cells.

    `past` is the same dictionary at every step of a batch. Of the labels the signals look at the places alone: what the
    set scores.
    """
    labels, names = record.batch.labels, frozenset(names)
    scored = labels != IGNORE
    count = scored.sum(-1).clamp(min=1)

    def mean(cells: Tensor) -> Tensor:
        return (torch.where(scored, cells, 0.0).sum(-1) / count).float()

    found: dict[str, Tensor] = {}
    if "q" in names and (q := halt_signal(record.readout, halting)) is not None:
        found["q"] = q
    if "margin" in names:
        top = record.logits.float().topk(min(2, record.logits.shape[-1]), dim=-1).values
        found["margin"] = mean(top[..., 0] - top[..., -1])
    if "residual" in names:
        found["residual"] = -residual(record.before, record.state).float()
    if not names.isdisjoint(OF_PROBABILITIES):
        p = probabilities(record.logits, likelihood)
        tiny = torch.finfo(p.dtype).tiny
        if "max-probability" in names:
            found["max-probability"] = mean(p.amax(-1))
        if "certainty" in names:
            found["certainty"] = mean(1 + (p * p.clamp(min=tiny).log()).sum(-1) / math.log(max(p.shape[-1], 2)))
        if LOSS in names:
            right = p.gather(-1, labels.clamp(min=0).unsqueeze(-1)).squeeze(-1)
            found[LOSS] = mean(-right.clamp(min=tiny).log())
    added = {name: function(record, {} if past is None else past) for name, function in ADDED.items() if name in names}
    return found | {name: value for name, value in added.items() if value is not None}


class Signals(Consumer):
    """`loss`, `q` and `residual` (T, N) float32; with policies every signal, since each may be a policy's."""

    def __init__(self, evaluator: Evaluator):
        super().__init__(evaluator)
        self.steps, self._kept = evaluator.steps, StepColumns(evaluator.steps)
        self._names = (*SIGNALS, LOSS) if evaluator.settings.policies else ("q", "residual", LOSS)

    _names: tuple[str, ...]
    _past: Past

    def observe(self, record: StepRecord) -> Columns | None:
        """Keep the signals of a step."""
        self._past = {} if record.step == 1 else self._past
        asked = self.evaluator.likelihood, self.evaluator.halting, self._past, self._names
        self._kept.add(signals(record, *asked))
        return self._kept.take() if record.step == self.steps else None

    def result(self, seen: Columns) -> dict[str, Any]:
        """Means by step: says halt, −ln p, ‖z_k − z_{k−1}‖/‖z_{k−1}‖ (inf from a start at 0)."""
        return {
            "halted_by_step": (seen["q"] > 0).mean(1).tolist() if "q" in seen else None,
            "loss_by_step": seen["loss"].mean(1, dtype=np.float64).tolist(),
            "residual_by_step": (-seen["residual"].mean(1, dtype=np.float64)).tolist(),
        }
