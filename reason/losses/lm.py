"""Cross-entropy of the cells under softmax or StableMax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from reason.models.base import IGNORE
from reason.nn.dtypes import widest_float
from reason.rollout import SupervisionStep

Likelihood = Literal["softmax", "stablemax", "stablemax3", "stablemax5"]
Reduction = Literal["row", "token"]
LARGE = 1024  # tokens of a large vocabulary: Sudoku and mazes have a dozen
IN_PIECES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {}  # `cell_loss` of one by likelihood; extensions add theirs
_DEGREE = {"stablemax": 1, "stablemax3": 3, "stablemax5": 5}


def stablemax_weight(x: Tensor, degree: int = 1) -> Tensor:
    """Return s(x), the Taylor polynomial of e^|x| of odd `degree` for x ≥ 0, its inverse for x < 0 (CMM eq. 35-46).

    Degree 1 is 1 + x and 1/(1 − x). Horner's scheme; same shape as x.
    """
    size = torch.where(x >= 0, x, -x)  # |x| with derivative 1 at 0 (abs has derivative 0 there)
    polynomial = torch.ones_like(size)
    for k in range(degree, 0, -1):
        polynomial = 1 + size / k * polynomial
    return torch.where(x >= 0, polynomial, 1 / polynomial)


def cell_loss(logits: Tensor, labels: Tensor, likelihood: Likelihood) -> Tensor:
    """Return −log p(label) of logits (..., V) and labels (...), (...) in the widest float; 0 for ignored labels."""
    if likelihood in IN_PIECES and logits.shape[-1] >= LARGE:
        return IN_PIECES[likelihood](logits, labels)
    # s grows slowly, so float32 would lose small terms of Σ s (HRM, TRM).
    wide = logits.to(widest_float(logits.device))
    scored = labels != IGNORE
    index = labels.clamp(min=0).unsqueeze(-1)
    if likelihood == "softmax":
        loss = -wide.log_softmax(-1).gather(-1, index).squeeze(-1)
    else:
        weight = stablemax_weight(wide, _DEGREE[likelihood])
        loss = weight.sum(-1).log() - weight.gather(-1, index).squeeze(-1).log()
    return torch.where(scored, loss, 0.0)


def lm_loss(step: SupervisionStep, likelihood: Likelihood, reduction: Reduction) -> Tensor:
    """Average the cell losses over the readouts, then reduce them over cells and rows by `reduced`."""
    losses = [cell_loss(readout.logits, step.batch.labels, likelihood) for readout in step.readouts]
    return reduced(step, torch.stack(losses).mean(0), reduction).float()


def reduced(step: SupervisionStep, cells: Tensor, reduction: Reduction) -> Tensor:
    """Reduce cell values (B, S) over the labelled cells of active rows.

    row: the mean over each row's labelled cells, summed over rows and divided by B (HRM, TRM); token: the sum over all
    cells divided by the labelled cells of all B rows (STARS, the readout blind spot).
    """
    labelled = step.batch.labels != IGNORE
    if reduction == "token":
        counted = labelled & step.active[:, None]
        return torch.where(counted, cells, 0.0).sum() / labelled.sum().clamp(min=1)
    return step.row_mean(torch.where(labelled, cells, 0.0).sum(1) / labelled.sum(1).clamp(min=1))


def probabilities(logits: Tensor, likelihood: Likelihood) -> Tensor:
    """Return p of every token under the likelihood, (..., V) -> (..., V) in float32 at least."""
    wide = logits.float() if logits.dtype != torch.float64 else logits
    if likelihood == "softmax":
        return wide.softmax(-1)
    weight = stablemax_weight(wide, _DEGREE[likelihood])
    return weight / weight.sum(-1, keepdim=True)
