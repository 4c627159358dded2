"""The readout blind spot: which part of the state the loss sees, and which part the loop moves (docs/math.md §14).

A state's read part h_k is its first tensor (z of a looped model, z_H of a recursive one). With ‖h‖_rms = ‖h‖₂/√D of a
token, h = s·u, ‖u‖_rms = 1: through a normalised readout the loss does not feel s (lemma 1), while a pre-norm residual
loop moves it by a_rad and turns u by b_⊥/s (lemma 2). Every probe wants a model as `probes.precise` makes it.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from torch import Tensor

from reason.evaluation.probes import precise, states
from reason.losses.halting import correct_cells
from reason.losses.lm import Likelihood, cell_loss
from reason.models.base import IGNORE, Batch, Reasoner, State

ClampMode = Literal["rescale", "subtract"]
SWEEP = tuple(10 ** (i / 10) for i in range(-10, 11))  # α from 0.1 to 10


def read_part(state: State) -> Tensor:
    """h (B, S', D): what the head reads."""
    return state[0]


def with_read_part(state: State, h: Tensor) -> State:
    """The state with another h, under every name that it bears."""
    mine = read_part(state)
    return type(state)(*(h if z is mine else z for z in state))


def rms(h: Tensor) -> Tensor:
    """‖h‖_rms of every token: (..., D) -> (..., 1)."""
    return h.square().mean(-1, keepdim=True).sqrt()


def random_alignment(width: int) -> float:
    """√(2/πD): E|cos| of a random direction in D dimensions, for large D."""
    return math.sqrt(2 / (math.pi * width))


def token_norms(h: Tensor) -> dict[str, float]:
    """‖h‖₂ over all tokens of all rows: mean, std, median, 99th percentile, maximum."""
    norms = torch.linalg.vector_norm(h, dim=-1).flatten()
    return {
        "mean": norms.mean().item(),
        "std": norms.std(correction=0).item(),
        "median": norms.quantile(0.5).item(),
        "p99": norms.quantile(0.99).item(),
        "max": norms.max().item(),
    }


def token_loss(model: Reasoner, state: State, batch: Batch, step: int | None, likelihood: Likelihood) -> Tensor:
    """CE: the mean over all labelled cells of all rows, of the readout after `step` loops (none: a final one)."""
    losses = cell_loss(model.readout(state, step).logits, batch.labels, likelihood)
    return losses.sum() / (batch.labels != IGNORE).sum()


def radial_gradient(
    model: Reasoner, state: State, batch: Batch, step: int | None, likelihood: Likelihood
) -> tuple[float, float]:
    """(r, g): mean |cos(∇_h L, h)| over the tokens that L reaches, and Σ_tokens ⟨∇_h L, h⟩ = ∂L/∂log s (table 3).

    L is the CE of this loop's own readout, h a leaf. A token without a gradient, as one that is not scored, has no
    direction and does not count in r (ours).
    """
    with torch.enable_grad():
        h = read_part(state).detach().requires_grad_()
        (gradient,) = torch.autograd.grad(token_loss(model, with_read_part(state, h), batch, step, likelihood), h)
    along = (gradient * h.detach()).sum(-1)
    sizes = torch.linalg.vector_norm(gradient, dim=-1) * torch.linalg.vector_norm(h.detach(), dim=-1)
    reached = sizes > 0
    return (along[reached].abs() / sizes[reached]).mean().item(), along.sum().item()


def residual_update(before: Tensor, after: Tensor) -> dict[str, float]:
    """What one loop does to h = s·u, means over tokens: b = F(h) − h = a_rad·u + b_⊥ (lemma 2).

    scale: s; scale_step: the increment of s, a_rad to leading order; a_rad = ⟨u, b⟩/D; b and b_perp in ‖·‖_rms; ratio:
    mean ‖b‖/|mean a_rad|; angular: ‖u_{k+1} − u_k‖_rms · s_k, b_perp to leading order.
    """
    s, later = rms(before), rms(after)
    u, b = before / s, after - before
    a = (u * b).mean(-1, keepdim=True)
    radial, size = a.mean().item(), rms(b).mean().item()
    return {
        "scale": s.mean().item(),
        "scale_step": (later - s).mean().item(),
        "a_rad": radial,
        "b": size,
        "b_perp": rms(b - a * u).mean().item(),
        "ratio": size / abs(radial) if radial else math.inf,
        "angular": (rms(after / later - u) * s).mean().item(),
    }


def clamped_states(model: Reasoner, x: Tensor, loops: int, mode: ClampMode) -> State:
    """The state after `loops` loops in which, from the second on, no token's scale grows (table 4).

    rescale: every token is brought back to the ‖·‖_rms that it had after loop 1, before it is read and fed back;
    subtract: the radial part of the loop's update is taken away, b_⊥ stays (ours). All parts of a state alike.
    """
    first = model.step(model.initial_state(x), x)
    state, sizes = first, [rms(z) for z in first]
    for _ in range(loops - 1):
        moved = model.step(state, x)
        parts = []
        for z, before, size in zip(moved, state, sizes, strict=True):
            if mode == "rescale":
                parts.append(z * size / rms(z))
            else:
                u = before / rms(before)
                parts.append(z - u * (u * (z - before)).mean(-1, keepdim=True))
        state = type(moved)(*parts)
    return state


@torch.no_grad()
def clamp(model: Reasoner, batch: Batch, loops: int, mode: ClampMode, likelihood: Likelihood) -> dict[str, float]:
    """ΔCE = clamped − not clamped at the last loop, and the norm ratio ‖h_K clamped‖/‖h_K‖ (table 4)."""
    x = model.encode(batch)
    *_, free = states(model, x, loops)
    held = clamped_states(model, x, loops, mode)
    ce, held_ce = (token_loss(model, state, batch, loops, likelihood).item() for state in (free, held))
    norms = [torch.linalg.vector_norm(read_part(state), dim=-1).mean().item() for state in (free, held)]
    return {"ce": ce, "clamped_ce": held_ce, "delta_ce": held_ce - ce, "norm_ratio": norms[1] / norms[0]}


@torch.no_grad()
def scale_sweep(
    model: Reasoner, state: State, batch: Batch, likelihood: Likelihood, step: int | None = None
) -> list[dict[str, float]]:
    """CE of the final state's h times α, α from 0.1 to 10 (figure 5)."""
    h = read_part(state)
    return [
        {"alpha": a, "ce": token_loss(model, with_read_part(state, a * h), batch, step, likelihood).item()}
        for a in SWEEP
    ]


def blind_spot(
    model: Reasoner, batch: Batch, loops: int, likelihood: Likelihood = "softmax", far: int = 30
) -> dict[str, Any]:
    """Every probe of this module, in float64: loops 1 … max(K, far) with K = `loops` the trained ones; JSON-ready."""
    model = precise(model)
    with torch.no_grad():
        x = model.encode(batch)
        course = list(states(model, x, max(loops, far)))[1:]
    by_loop = []
    for k, state in enumerate(course, start=1):
        r, g = radial_gradient(model, state, batch, k, likelihood)
        with torch.no_grad():
            row: dict[str, Any] = {
                "loop": k,
                "norm": token_norms(read_part(state)),
                "r": r,
                "g": g,
                "ce": token_loss(model, state, batch, k, likelihood).item(),
                "exact": correct_cells(model.readout(state, k).logits, batch.labels)[1].double().mean().item(),
            }
            if k < len(course):
                row |= residual_update(read_part(state), read_part(course[k]))
        by_loop.append(row)
    last = course[loops - 1]
    return {
        "puzzles": len(batch.inputs),
        "loops": loops,
        "width": read_part(last).shape[-1],
        "random_r": random_alignment(read_part(last).shape[-1]),
        "ce_gap": by_loop[0]["ce"] - by_loop[loops - 1]["ce"],
        "by_loop": by_loop,
        "clamp": {mode: clamp(model, batch, loops, mode, likelihood) for mode in ("rescale", "subtract")},
        "scale_sweep": scale_sweep(model, last, batch, likelihood, loops),
    }
