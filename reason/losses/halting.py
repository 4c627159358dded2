"""Losses of the halting head (docs/math.md §4)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from reason.models.base import IGNORE, correct
from reason.rollout import SupervisionStep


def halt_loss(step: SupervisionStep) -> Tensor:
    """Return BCE(q_halt, 1[row exact]), summed over active rows and divided by B (HRM eq. 8, TRM)."""
    readout = step.readouts[-1]
    assert readout.q_halt is not None, "the config checks that the model has a halting head"
    right, _ = correct(readout.logits.detach().argmax(-1), step.batch.labels)
    exact = (right == (step.batch.labels != IGNORE)).all(-1)  # also a row without a label, as in the authors' code
    return step.row_mean(binary_cross_entropy_with_logits(readout.q_halt, exact.float(), reduction="none"))


def q_continue_loss(step: SupervisionStep) -> Tensor:
    """Return BCE(q_continue, σ(target)), with q' of the next supervision step (CMM eq. 9).

    The target is max(q'_halt, q'_continue), and q'_halt at the last step of a puzzle.
    """
    q_continue = step.readouts[-1].q_continue
    following = step.next_readout
    assert following is not None, "the config checks that halting is q-learning"
    assert following.q_halt is not None
    assert following.q_continue is not None
    assert q_continue is not None
    best = torch.where(step.is_last_step, following.q_halt, torch.maximum(following.q_halt, following.q_continue))
    return step.row_mean(binary_cross_entropy_with_logits(q_continue, best.sigmoid(), reduction="none"))
