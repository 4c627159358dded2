"""The readout blind spot: the part of the state that the loss depends on, and that the loop moves (docs/math.md §14).

The readout uses h_k, the first tensor (z of a looped model, z_H of a recursive one). A token has ‖h‖_rms = ‖h‖₂/√D and
h = s·u, ‖u‖_rms = 1. Through a normalised readout the loss does not depend on s (lemma 1), while a pre-norm residual
loop changes s by a_rad and rotates u by b_⊥/s (lemma 2). All probes need a model of `states.precise`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from torch import Tensor

from reason.evaluation.evaluator import Columns, Consumer, Evaluator
from reason.losses.lm import Likelihood, cell_loss
from reason.models.base import IGNORE, Batch, Reasoner, State
from reason.models.states import mapped, precise
from reason.report.chart import Chart, legend
from reason.report.palette import GREY, styled
from reason.report.section import Results, Section, Table, cells, number, rows_shown, share
from reason.rollout import StepRecord, unroll

PUZZLES = 128  # maximum: all their loops are stored in float64
SWEEP = tuple(10 ** (i / 10) for i in range(-10, 11))  # α from 0.1 to 10


def read_part(state: State) -> Tensor:
    """Return h (B, S', D), the input of the head."""
    return state[0]


def with_read_part(state: State, h: Tensor) -> State:
    """Return the state with another h."""
    return type(state)(h, *state[1:])


def rms(h: Tensor) -> Tensor:
    """Return ‖h‖_rms (..., 1) of each token (..., D)."""
    return h.square().mean(-1, keepdim=True).sqrt()


def token_norms(h: Tensor) -> dict[str, float]:
    """Return mean, median, 99th percentile and maximum of ‖h‖₂ over all tokens of all rows."""
    norms = torch.linalg.vector_norm(h, dim=-1).flatten()
    quantiles = {name: norms.quantile(q).item() for name, q in (("median", 0.5), ("p99", 0.99), ("max", 1.0))}
    return {"mean": norms.mean().item(), **quantiles}


def token_loss(record: StepRecord, h: Tensor, likelihood: Likelihood) -> Tensor:
    """Return the mean CE over all labelled cells of all rows, of the record's readout with another h."""
    labels = record.batch.labels
    losses = cell_loss(record.read(with_read_part(record.state, h)).logits, labels, likelihood)
    return losses.sum() / (labels != IGNORE).sum()


def radial_gradient(record: StepRecord, likelihood: Likelihood) -> tuple[float, float]:
    """Return (r, g): mean |cos(∇_h L, h)| over tokens with a gradient, and Σ_tokens ⟨∇_h L, h⟩ = ∂L/∂log s (table 3).

    L is the CE of this loop's readout, h a leaf. A token without a gradient, such as one that is not scored, does not
    count in r (ours).
    """
    with torch.enable_grad():
        h = read_part(record.state).detach().requires_grad_()
        (gradient,) = torch.autograd.grad(token_loss(record, h, likelihood), h)
    along = (gradient * h.detach()).sum(-1)
    sizes = torch.linalg.vector_norm(gradient, dim=-1) * torch.linalg.vector_norm(h.detach(), dim=-1)
    reached = sizes > 0
    return (along[reached].abs() / sizes[reached]).mean().item(), along.sum().item()


def residual_update(before: Tensor, after: Tensor) -> dict[str, float]:
    """Return the mean effect of a loop on h = s·u: b = F(h) − h = a_rad·u + b_⊥, a_rad = ⟨u, b⟩/D (lemma 2)."""
    s = rms(before)
    u, b = before / s, after - before
    a = (u * b).mean(-1, keepdim=True)
    return {"scale": s.mean().item(), "a_rad": a.mean().item(), "b_perp": rms(b - a * u).mean().item()}


@torch.no_grad()
def clamp(last: StepRecord, likelihood: Likelihood) -> dict[str, float]:
    """Return ΔCE and the ratio of ‖h_K‖ if token scales are clamped, against the unchanged loops (table 4).

    After each loop, each token is rescaled to its ‖·‖_rms of loop 1, before the head and the next loop, in all parts of
    a state.
    """
    model, context = last.model, last.context
    state = first = model.step(model.initial_state(context), context)
    for _ in range(last.step - 1):
        state = mapped(model.step(state, context), lambda z, of: z * rms(of) / rms(z), first)
    both = [read_part(last.state), read_part(state)]
    ce, held_ce = (token_loss(last, h, likelihood).item() for h in both)
    norms = [torch.linalg.vector_norm(h, dim=-1).mean().item() for h in both]
    return {"ce": ce, "clamped_ce": held_ce, "delta_ce": held_ce - ce, "norm_ratio": norms[1] / norms[0]}


@torch.no_grad()
def scale_sweep(last: StepRecord, likelihood: Likelihood) -> list[dict[str, float]]:
    """Return the CE with h times α, α from 0.1 to 10 (figure 5)."""
    h = read_part(last.state)
    return [{"alpha": a, "ce": token_loss(last, a * h, likelihood).item()} for a in SWEEP]


def blind_spot(
    model: Reasoner,
    batch: Batch,
    loops: int,
    likelihood: Likelihood = "softmax",
    far: int = 30,
    rows: Tensor | None = None,
    rules: Callable[[StepRecord], Tensor] | None = None,
) -> dict[str, Any]:
    """Return all probes, in float64, for JSON: loops 1 … max(T, far), T = `loops` the trained number.

    rows, rules: see `StepRecord`.
    """
    with torch.no_grad():
        taken = unroll(precise(model), batch, max(loops, far))
        records = [replace(record, rows=rows, rules=rules) for record in taken]
    by_loop = []
    for record in records:
        r, g = radial_gradient(record, likelihood)
        h = read_part(record.state)
        with torch.no_grad():
            row: dict[str, Any] = {
                "loop": record.step,
                "norm": token_norms(h),
                "r": r,
                "g": g,
                "ce": token_loss(record, h, likelihood).item(),
                "exact": record.exact.float().mean().item(),
            }
            if record.step < len(records):
                row |= residual_update(h, read_part(records[record.step].state))
        by_loop.append(row)
    last = records[loops - 1]
    width = read_part(last.state).shape[-1]
    return {
        "puzzles": len(batch.inputs),
        "loops": loops,
        "width": width,
        "random_r": math.sqrt(2 / (math.pi * width)),  # E|cos| of a random direction, for large D
        "ce_gap": by_loop[0]["ce"] - by_loop[loops - 1]["ce"],
        "by_loop": by_loop,
        "clamp": clamp(last, likelihood),
        "scale_sweep": scale_sweep(last, likelihood),
    }


class BlindSpot(Consumer):
    """Measures the first puzzles, as many as can be stored in float64 through all loops."""

    order = 90

    def __init__(self, evaluator: Evaluator):
        super().__init__(evaluator)
        self._few = evaluator.examples[:PUZZLES]
        self.cost = f"blind_spot: {len(self._few)} puzzles in float64, {max(evaluator.trained_steps, 30)} loops"

    def result(self, seen: Columns) -> dict[str, Any]:
        """Return every probe, by name."""
        evaluator, few = self.evaluator, self._few
        batch, loops = evaluator.data.take(few), evaluator.trained_steps
        probes = blind_spot(evaluator.model, batch, loops, evaluator.likelihood, rows=few, rules=evaluator.rules)
        return {"blind_spot": probes}


def _tables(results: Results) -> list[Table]:
    probes = results["blind_spot"]
    rows = [
        [
            str(row["loop"]),
            *(number(row["norm"][key]) for key in ("mean", "p99")),
            *(number(row[key], ".1e") for key in ("r", "g")),
            *(number(row.get(key)) for key in ("a_rad", "b_perp")),
            number(row["ce"]),
            share(row["exact"]),
        ]
        for row in probes["by_loop"]
    ]
    columns = ("loop", "‖h‖ mean", "p99", "r", "g", "a_rad", "‖b_⊥‖", "CE", "exact")
    clamped = cells(probes["clamp"], ce=".4f", clamped_ce=".4f", delta_ce=".4f", norm_ratio=".2f")
    sweep = [[f"{row['alpha']:.2f}", number(row["ce"], ".4f")] for row in probes["scale_sweep"]]
    title = f"readout blind spot, {probes['puzzles']} puzzles, in float64"
    return [
        Table(title, columns, rows, first=rows_shown(len(rows), probes["loops"])),
        Table("scale fixed from loop 1 on", ("CE", "clamped", "ΔCE", "norm ratio"), [clamped]),
        Table("CE of the readout of α·h_K", ("α", "CE"), sweep, first=range(0, len(sweep), 5)),
    ]


LINES = {"token norms ‖h‖₂": ("mean", "median", "p99", "max"), "parts of a loop's update": ("a_rad", "b_perp")}


def _charts(results: Results) -> list[Chart]:
    probes = results["blind_spot"]
    rows = [row | row["norm"] for row in probes["by_loop"] if row["norm"]["mean"] is not None]  # None: diverged

    def draw(axes: Axes, keys: tuple[str, ...]) -> None:
        for index, key in enumerate(keys):
            some = [row for row in rows if key in row]
            values = np.array([row[key] for row in some], float)
            axes.plot([row["loop"] for row in some], values, label=key, markevery=4, **styled(index))
        axes.axvline(probes["loops"], color=GREY, ls=":", lw=1)
        axes.set_xlabel("loop k")
        axes.set_yscale("symlog")
        legend(axes)

    alt_text = "the numbers are in the table" if rows else "the state diverged"
    return [Chart(title, alt_text, partial(draw, keys=keys)) for title, keys in LINES.items()]


NOTE = """The head reads h = s·u. r: mean |cos| between the loss's gradient and h; g: ∂L/∂log s; a_rad and b_⊥: parts of
a loop's update parallel and orthogonal to u. Clamped: the scale s of each token is fixed from loop 1 on."""

BLIND_SPOT = Section(
    "blind_spot", "The readout's blind spot", _tables, {"blind_spot": _charts}, lambda _: NOTE, "float64", order=90
)
