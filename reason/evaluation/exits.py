"""An exit gate at work: where it leaves, and what that costs beside a fixed number of loops (Ouro)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from reason.data import PuzzleData
from reason.losses.exit import exit_step, log_exit_distribution
from reason.losses.halting import correct_cells
from reason.losses.lm import Likelihood, cell_loss
from reason.models.base import IGNORE, Batch, Reasoner
from reason.rollout import unroll

QUANTILES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)


@torch.inference_mode()
def exits(
    model: Reasoner,
    data: PuzzleData,
    loops: int,
    batch_size: int,
    limit: int | None = None,
    likelihood: Likelihood = "softmax",
) -> dict[str, Any]:
    """The gate's distribution p(t), and accuracy against mean loops: leaving by its quantiles, and fixed loops.

    Means over the scored cells (`mean_loops`, `cell`, `ce` in nats) and over puzzles (`exact`); a cell
    that leaves keeps what it said there. A gate per puzzle takes all cells with it.
    """
    model.eval()
    count = min(len(data), limit or len(data))
    sums: dict[tuple[str, float], Tensor] = {}
    spread, cells = torch.zeros(loops, dtype=torch.float64), 0
    for first in range(0, count, batch_size):
        batch = data.take(torch.arange(first, min(first + batch_size, count), device=data.device))
        seen = [readout for _, readout in unroll(model, batch, loops)]
        logits = torch.stack([readout.logits for readout in seen])  # (T, B, S, V)
        gates = torch.stack([readout.gate for readout in seen if readout.gate is not None])
        gates = gates.expand(*logits.shape[:3])
        scored = batch.labels != IGNORE
        p = log_exit_distribution(gates).exp()
        spread += (p * scored).sum((1, 2)).double().cpu()
        cells += int(scored.sum())
        ways = {("gate", q): exit_step(gates, q) for q in QUANTILES}
        ways |= {("fixed", float(t)): torch.full_like(batch.labels, t) for t in range(1, loops + 1)}
        for way, step in ways.items():
            sums[way] = sums.get(way, torch.zeros(4, dtype=torch.float64)) + _reading(logits, step, batch, likelihood)
    rows = {
        way: dict(
            zip(
                ("mean_loops", "cell", "ce", "exact"),
                (total / torch.tensor([cells, cells, cells, count])).tolist(),
                strict=True,
            )
        )
        for way, total in sums.items()
    }
    return {
        "puzzles": count,
        "loops": loops,
        "p": (spread / cells).tolist(),
        "gate": [{"quantile": q, **row} for (kind, q), row in rows.items() if kind == "gate"],
        "fixed": [{"loops": int(t), **row} for (kind, t), row in rows.items() if kind == "fixed"],
    }


def _reading(logits: Tensor, step: Tensor, batch: Batch, likelihood: Likelihood) -> Tensor:
    """Sums (4,) of steps, right cells and CE over scored cells, and of exact puzzles, each cell read at its step."""
    index = (step - 1)[None, :, :, None].expand(1, *logits.shape[1:])
    chosen = logits.gather(0, index).squeeze(0)
    scored = batch.labels != IGNORE
    right, exact = correct_cells(chosen, batch.labels)
    parts = ((step * scored).sum(), right.sum(), cell_loss(chosen, batch.labels, likelihood).sum(), exact.sum())
    return torch.stack([part.double() for part in parts]).cpu()
