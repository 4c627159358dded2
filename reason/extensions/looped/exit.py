"""Losses of Ouro's exit gate, stage I and II, and the exit rule at inference (docs/math.md §11).

λ_t = σ(gate_t) is the chance of leaving after loop t where one has not left before; gates are stacked as (T, B, S) at
every position, or as (T, B, 1) where the gate is one per puzzle.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, logsigmoid

from reason.losses.lm import Likelihood, Reduction, cell_loss, reduced
from reason.models.base import IGNORE, Readout
from reason.rollout import Unroll
from reason.settings.base import Need

if TYPE_CHECKING:
    from reason.config.schema import Config

SLOPE = 50.0  # k (Ouro, stage II): how sharply the target turns from leaving to going on
THRESHOLD = 0.005  # γ (Ouro, stage II): the improvement of the loss, in nats, that is worth a loop


def several_readouts(config: Config) -> Iterator[Need]:
    """An exit gate, and readouts of several loops of one backward pass."""
    yield _gate(config)
    loops = config.rollout.loops
    mend = "rollout.loops.count=4 rollout.loops.supervision=per-loop"
    per_loop = bool(loops.several) and loops.supervision == "per-loop"
    yield Need(per_loop, "readouts of several loops of one backward pass", mend)


def every_readout(config: Config) -> Iterator[Need]:
    """An exit gate, a readout of every loop, and at least three of them: the gate learns from 2 to the last but one."""
    yield _gate(config)
    loops = config.rollout.loops
    every = not loops.several or loops.supervision == "per-loop"
    yield Need(every, "a readout of every loop", "rollout.loops.supervision=per-loop")
    yield Need(config.rollout.trained_steps >= 3, "3 steps of the model in training", "rollout.loops.count=4")


def _gate(config: Config) -> Need:
    mend = "model.gate=position" if hasattr(config.model, "gate") else ""
    return Need("gate" in config.model.heads, "an exit gate", mend)


def log_exit_distribution(gates: Tensor) -> Tensor:
    """log p(t) of p(t) = λ_t Π_{j<t}(1 − λ_j), the rest at T: (T, ...) -> (T, ...); Σ_t p(t) = 1 whatever the gates."""
    stays = logsigmoid(-gates[:-1]).cumsum(0)  # (T − 1, ...): log S_t
    return torch.cat([torch.zeros_like(gates[:1]), stays]) + torch.cat([logsigmoid(gates[:-1]), gates[-1:] * 0])


def exit_cdf(gates: Tensor) -> Tensor:
    """Σ_{j≤t} p(j) = 1 − Π_{j≤t}(1 − λ_j) while t is not the last loop: (T, ...) -> (T, ...), rising in t."""
    return 1 - logsigmoid(-gates).cumsum(0).exp()


def exit_step(gates: Tensor, quantile: float) -> Tensor:
    """The first t, counted from 1, whose CDF exceeds `quantile`, else T: (T, ...) -> (...) int64."""
    beyond = exit_cdf(gates) > quantile
    beyond[-1] = True
    return beyond.int().argmax(0) + 1


def exit_loss(unroll: Unroll, likelihood: Likelihood, reduction: Reduction) -> Tensor:
    """Stage I, its first part: Σ_t p(t) L_t, the mean over labelled cells as in LM."""
    log_p = log_exit_distribution(_gates(unroll.readouts))
    losses = torch.stack([_loss(readout, unroll, likelihood) for readout in unroll.readouts])
    return _mean(unroll, (log_p.exp() * losses).sum(0), reduction)


def exit_entropy(unroll: Unroll, reduction: Reduction) -> Tensor:
    """Stage I, its second part: −H(p) = Σ_t p(t) log p(t), to be weighted with β."""
    log_p = log_exit_distribution(_gates(unroll.readouts))
    return _mean(unroll, (log_p.exp() * log_p).sum(0), reduction)


def exit_gate_loss(unroll: Unroll, likelihood: Likelihood, reduction: Reduction) -> Tensor:
    """Stage II: BCE of going on, 1 − λ_t, against w_t = σ(k(I_t − γ)), I_t = max(0, L_{t−1} − L_t), both detached.

    The mean over t = 2 … T − 1 (ours: at T one leaves in any case, and at t = 1 there is no loss before). Where a
    puzzle takes several supervision steps, t counts through all of them, so that the gate of a recursive model learns
    from one step at a time (ours). A gate per puzzle compares losses of whole rows.
    """
    assert unroll.steps is not None
    with torch.no_grad():
        early = unroll.model.readout(unroll.before, unroll.context, step=1)  # L_0 and L_1 are read alike
        losses = torch.stack([_loss(readout, unroll, likelihood) for readout in (early, *unroll.readouts)])
        target = (SLOPE * ((losses[:-1] - losses[1:]).clamp(min=0) - THRESHOLD)).sigmoid()  # w
    gates = _gates(unroll.readouts)
    each = binary_cross_entropy_with_logits(-gates, target.to(gates.dtype), reduction="none")  # (T, B, S or 1)
    counts = torch.ones(each.shape[:2], dtype=torch.bool, device=each.device)  # (T, B)
    counts[0] &= unroll.steps > 1
    counts[-1] &= ~unroll.last
    taught = counts.unsqueeze(-1)
    return _mean(unroll, torch.where(taught, each, 0.0).sum(0) / taught.sum(0).clamp(min=1), reduction)


def _gates(readouts: tuple[Readout, ...]) -> Tensor:
    gates = [readout.gate for readout in readouts if readout.gate is not None]
    assert len(gates) == len(readouts), "the config checks that the model has a gate"
    return torch.stack(gates)


def _loss(readout: Readout, unroll: Unroll, likelihood: Likelihood) -> Tensor:
    """L_t where the gate decides: of every cell (B, S), or of every row (B, 1)."""
    assert readout.gate is not None
    if readout.gate.shape[1] == 1:
        return lm_per_row(readout.logits, unroll.batch.labels, likelihood).unsqueeze(1)
    return cell_loss(readout.logits, unroll.batch.labels, likelihood)


def lm_per_row(logits: Tensor, labels: Tensor, likelihood: Likelihood) -> Tensor:
    """(B, S, V), (B, S) -> (B,): the mean over each row's labelled cells (0 for a row without any)."""
    labelled = (labels != IGNORE).sum(-1).clamp(min=1)
    return cell_loss(logits, labels, likelihood).sum(-1) / labelled


def _mean(unroll: Unroll, each: Tensor, reduction: Reduction) -> Tensor:
    """(B, S) reduced as LM is; (B, 1), one value per row, summed over active rows and divided by B."""
    return (unroll.row_mean(each[:, 0]) if each.shape[1] == 1 else reduced(unroll, each, reduction)).float()
