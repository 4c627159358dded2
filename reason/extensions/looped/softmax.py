"""Cross-entropy of a large vocabulary under softmax, in little memory."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from reason.models.base import IGNORE
from reason.nn.dtypes import at_least_float32

PIECE = 2048  # cells that are converted together


class LargeSoftmax(torch.autograd.Function):
    """`cell_loss` of a large vocabulary under softmax, in float32 or wider; stores only the logits and Σ exp.

    16-bit logits are converted in pieces, so that only the logits (..., V) and their gradient have full size.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor) -> Tensor:
        """Map logits (..., V) and labels (...) to losses (...)."""
        cells = zip(logits.flatten(0, -2).split(PIECE), labels.flatten().clamp(min=0).split(PIECE), strict=True)
        sums, chosen = [], []
        for piece, label in cells:
            wide = at_least_float32(piece)
            sums.append(wide.logsumexp(-1))
            chosen.append(wide.gather(-1, label[:, None]).squeeze(-1))
        log_sum = torch.cat(sums)
        ctx.save_for_backward(logits, labels, log_sum)
        return torch.where(labels != IGNORE, (log_sum - torch.cat(chosen)).view_as(labels), 0.0)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        """Return (softmax(logits) − onehot(label)) · gradient, 0 at ignored labels."""
        logits, labels, log_sum = ctx.saved_tensors
        result = torch.empty_like(logits, memory_format=torch.contiguous_format)
        scale = torch.where(labels != IGNORE, gradient, 0.0).flatten()[:, None]
        rows = (logits.flatten(0, -2), labels.flatten().clamp(min=0)[:, None], log_sum[:, None], scale)
        for piece, label, total, scale, out in zip(
            *(part.split(PIECE) for part in (*rows, result.view(-1, logits.shape[-1]))), strict=True
        ):
            p = (at_least_float32(piece) - total).exp_().scatter_add_(-1, label, -torch.ones_like(total))
            out.copy_(p.mul_(scale))
        return result, None
