"""Losses of Ouro's exit gate, stages I and II, and the exit rule at inference (docs/math.md §11).

λ_t = σ(gate_t) is the probability of an exit after loop t, given no earlier exit; gates are stacked as (T, B, S).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, logsigmoid

from reason.losses.lm import Likelihood, Reduction, cell_loss, reduced
from reason.models.base import Readout
from reason.rollout import SupervisionStep
from reason.settings.base import Need

if TYPE_CHECKING:
    from reason.config.schema import Config

SLOPE = 50.0  # k (Ouro, stage II): slope of the target between exit and continue
THRESHOLD = 0.005  # γ (Ouro, stage II): the least improvement of the loss, in nats, for another loop


def gated_loops(config: Config) -> Iterator[Need]:
    """Require an exit gate and readouts of three loops: stage II trains the gate at loops 2 to T − 1."""
    yield Need("gate" in config.model.heads, "an exit gate", "model.gate=position" * hasattr(config.model, "gate"))
    loops = config.rollout.loops
    read = loops.supervision == "per-loop" and loops.typical >= 3
    fix = "rollout.loops.count=4 rollout.loops.supervision=per-loop"
    yield Need(read, "readouts of 3 loops of one backward pass", fix)


def log_exit_distribution(gates: Tensor) -> Tensor:
    """Return log p(t), p(t) = λ_t Π_{j<t}(1 − λ_j), the rest at T: (T, ...) -> (T, ...), so that Σ_t p(t) = 1."""
    stays = logsigmoid(-gates[:-1]).cumsum(0)  # (T − 1, ...): log S_t
    return torch.cat([torch.zeros_like(gates[:1]), stays]) + torch.cat([logsigmoid(gates[:-1]), gates[-1:] * 0])


def exit_step(gates: Tensor, quantile: float) -> Tensor:
    """Return the first t (from 1) at which 1 − Π_{j≤t}(1 − λ_j) exceeds `quantile`, else T: (T, ...) -> (...)."""
    beyond = 1 - logsigmoid(-gates).cumsum(0).exp() > quantile
    beyond[-1] = True
    return beyond.int().argmax(0) + 1


def exit_loss(step: SupervisionStep, likelihood: Likelihood, reduction: Reduction) -> Tensor:
    """Stage I, first part: Σ_t p(t) L_t, the mean over labelled cells as in LM."""
    p = log_exit_distribution(gates_of(step.readouts)).exp()
    return reduced(step, (p * _losses(step, likelihood)).sum(0), reduction).float()


def exit_entropy(step: SupervisionStep, reduction: Reduction) -> Tensor:
    """Stage I, second part: −H(p) = Σ_t p(t) log p(t), with weight β."""
    log_p = log_exit_distribution(gates_of(step.readouts))
    return reduced(step, (log_p.exp() * log_p).sum(0), reduction).float()


def exit_gate_loss(step: SupervisionStep, likelihood: Likelihood, reduction: Reduction) -> Tensor:
    """Stage II: BCE of continuing, 1 − λ_t, against w_t = σ(k(I_t − γ)), I_t = max(0, L_{t−1} − L_t), both detached.

    The mean over t = 2 … T − 1 (ours: the exit at T is certain, and t = 1 has no previous loss).
    """
    gates, losses = gates_of(step.readouts)[1:-1], _losses(step, likelihood).detach()
    target = (SLOPE * ((losses[:-2] - losses[1:-1]).clamp(min=0) - THRESHOLD)).sigmoid()  # w
    each = binary_cross_entropy_with_logits(-gates, target.to(gates.dtype), reduction="none")
    return reduced(step, each.sum(0) / max(1, len(each)), reduction).float()  # a random T may be below 3


def gates_of(readouts: tuple[Readout, ...] | list[Readout]) -> Tensor:
    """Stack the gates of the readouts, (T, B, S)."""
    return torch.stack([readout.gate for readout in readouts if readout.gate is not None])


def _losses(step: SupervisionStep, likelihood: Likelihood) -> Tensor:
    """Return the losses L_t of all cells, (T, B, S)."""
    return torch.stack([cell_loss(readout.logits, step.batch.labels, likelihood) for readout in step.readouts])
