"""The readout blind spot: which part of the state the loss sees, and which part the loop moves (docs/math.md §14).

A state's read part h_k is its first tensor (z of a looped model, z_H of a recursive one). With ‖h‖_rms = ‖h‖₂/√D of a
token, h = s·u, ‖u‖_rms = 1: through a normalised readout the loss does not feel s (lemma 1), while a pre-norm residual
loop moves it by a_rad and turns u by b_⊥/s (lemma 2). Every probe needs a model as `probes.precise` makes it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import torch
from matplotlib.axes import Axes
from torch import Tensor

from reason.context import Context
from reason.dynamics.jacobian import jvp
from reason.evaluation.evaluator import Columns, Consumer, Evaluator
from reason.evaluation.states import precise
from reason.losses.lm import Likelihood, cell_loss
from reason.models.base import IGNORE, Batch, Reasoner, State
from reason.report.chart import Chart, legend, log_axis, numbers, shares_axis
from reason.report.palette import BLUE, GREY, ORANGE, styled
from reason.report.section import Charts, Results, Section, Table, number, rows_shown, share
from reason.rollout import StepRecord, unroll

ClampMode = Literal["rescale", "subtract"]
Draw = Callable[[Axes, Results], None]
PUZZLES = 128  # at most: all their loops are held in float64
SWEEP = tuple(10 ** (i / 10) for i in range(-10, 11))  # α from 0.1 to 10
HORIZONS = (1, 2, 4)  # t of ∂L_{k+t}/∂log s_k


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


def token_loss(record: StepRecord, h: Tensor, likelihood: Likelihood) -> Tensor:
    """CE: the mean over all labelled cells of all rows, of the record's readout with another h."""
    labels = record.batch.labels
    losses = cell_loss(record.read(with_read_part(record.state, h)).logits, labels, likelihood)
    return losses.sum() / (labels != IGNORE).sum()


def radial_gradient(record: StepRecord, likelihood: Likelihood) -> tuple[float, float]:
    """(r, g): mean |cos(∇_h L, h)| over the tokens that L reaches, and Σ_tokens ⟨∇_h L, h⟩ = ∂L/∂log s (table 3).

    L is the CE of this loop's own readout, h a leaf. A token without a gradient, as one that is not scored, has no
    direction and does not count in r (ours).
    """
    with torch.enable_grad():
        h = read_part(record.state).detach().requires_grad_()
        (gradient,) = torch.autograd.grad(token_loss(record, h, likelihood), h)
    along = (gradient * h.detach()).sum(-1)
    sizes = torch.linalg.vector_norm(gradient, dim=-1) * torch.linalg.vector_norm(h.detach(), dim=-1)
    reached = sizes > 0
    return (along[reached].abs() / sizes[reached]).mean().item(), along.sum().item()


@torch.no_grad()
def future_gradients(records: list[StepRecord], loop: int, likelihood: Likelihood) -> dict[str, float]:
    """g_t = ∂L_{k+t}/∂log s_k of k = `loop` by forward-mode differentiation along h_k, where loop k + t is known.

    L_{k+t} is the CE read t whole loops later, none of them detached. Eq. 4 bounds |g_t| by C·t/s_k behind a scale-free
    readout of a pre-norm residual loop.
    """
    start, horizons = records[loop - 1], [t for t in HORIZONS if loop + t <= len(records)]

    def losses(h: Tensor) -> Tensor:
        state, found = with_read_part(start.state, h), []
        for later in records[loop : loop + max(horizons)]:
            state = start.model.step(state, start.context)
            if later.step - loop in horizons:
                found.append(token_loss(later, read_part(state), likelihood))
        return torch.stack(found)

    if not horizons:
        return {}
    h = read_part(start.state)
    slopes = jvp(losses, h, h).tolist()
    return {f"g_{t}": slope for t, slope in zip(horizons, slopes, strict=True)}


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


def clamped_states(model: Reasoner, context: Context, loops: int, mode: ClampMode) -> State:
    """The state after `loops` loops in which, from the second on, no token's scale grows (table 4).

    rescale: every token is brought back to the ‖·‖_rms that it had after loop 1, before it is read and fed back;
    subtract: the radial part of the loop's update is taken away, b_⊥ stays (ours). All parts of a state alike.
    """
    first = model.step(model.initial_state(context), context)
    state, sizes = first, [rms(z) for z in first]
    for _ in range(loops - 1):
        moved = model.step(state, context)
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
def clamp(last: StepRecord, mode: ClampMode, likelihood: Likelihood) -> dict[str, float]:
    """ΔCE = clamped − not clamped at the last loop, and the norm ratio ‖h_K clamped‖/‖h_K‖ (table 4)."""
    held = clamped_states(last.model, last.context, last.step, mode)
    both = [read_part(last.state), read_part(held)]
    ce, held_ce = (token_loss(last, h, likelihood).item() for h in both)
    norms = [torch.linalg.vector_norm(h, dim=-1).mean().item() for h in both]
    return {"ce": ce, "clamped_ce": held_ce, "delta_ce": held_ce - ce, "norm_ratio": norms[1] / norms[0]}


@torch.no_grad()
def scale_sweep(last: StepRecord, likelihood: Likelihood) -> list[dict[str, float]]:
    """CE of the state's h times α, α from 0.1 to 10 (figure 5)."""
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
    """Every probe, in float64: loops 1 … max(K, far) with K = `loops` the trained ones; JSON-ready.

    rows, rules: see `StepRecord`.
    """
    with torch.no_grad():
        records = list(unroll(precise(model), batch, max(loops, far), rows, rules=rules))
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
            row |= future_gradients(records, record.step, likelihood)
        by_loop.append(row)
    last = records[loops - 1]
    width = read_part(last.state).shape[-1]
    return {
        "puzzles": len(batch.inputs),
        "loops": loops,
        "width": width,
        "random_r": random_alignment(width),
        "ce_gap": by_loop[0]["ce"] - by_loop[loops - 1]["ce"],
        "by_loop": by_loop,
        "clamp": {mode: clamp(last, mode, likelihood) for mode in ("rescale", "subtract")},
        "scale_sweep": scale_sweep(last, likelihood),
    }


class BlindSpot(Consumer):
    """The first puzzles, at most as many as are held in float64 through all loops."""

    place = 90

    def __init__(self, evaluator: Evaluator):
        super().__init__(evaluator)
        self._few = evaluator.examples[:PUZZLES]
        self.cost = f"blind_spot: {len(self._few)} puzzles in float64, {max(evaluator.trained_steps, 30)} loops"

    def result(self, seen: Columns) -> dict[str, Any]:
        """Every probe, by name."""
        evaluator, few = self.evaluator, self._few
        batch, loops = evaluator.data.take(few), evaluator.trained_steps
        found = blind_spot(evaluator.model, batch, loops, evaluator.likelihood, rows=few, rules=evaluator.rules)
        return {"blind_spot": found}


def _tables(results: Results) -> list[Table]:
    found = results["blind_spot"]
    rows = [
        [
            str(row["loop"]),
            *(number(row["norm"][key]) for key in ("mean", "p99")),
            *(number(row[key], ".1e") for key in ("r", "g")),
            *(number(row.get(key), ".1e") for key in ("g_1", "g_4")),
            *(number(row.get(key)) for key in ("a_rad", "b_perp")),
            number(row["ce"]),
            share(row["exact"]),
        ]
        for row in found["by_loop"]
    ]
    columns = ("loop", "‖h‖ mean", "p99", "r", "g", "g_1", "g_4", "a_rad", "‖b_⊥‖", "CE", "exact")
    clamps = [
        [way, *(number(row[key], ".4f") for key in ("ce", "clamped_ce", "delta_ce")), number(row["norm_ratio"], ".2f")]
        for way, row in found["clamp"].items()
    ]
    return [
        Table(
            f"readout blind spot, {found['puzzles']} puzzles, in float64",
            columns,
            rows,
            first=rows_shown(len(rows), found["loops"]),
        ),
        Table("the scale held from loop 1 on", ("way", "CE", "clamped", "ΔCE", "norm ratio"), clamps),
    ]


def _column(found: Results, *keys: str) -> tuple[list[int], np.ndarray]:
    """Loops and values, where a loop has one."""
    loops, values = [], []
    for row in found["by_loop"]:
        if keys[0] in row:
            value = row[keys[0]]
            loops.append(row["loop"])
            values.append(value[keys[1]] if len(keys) > 1 else value)
    return loops, numbers(values)


def _loops(axes: Axes, found: Results) -> None:
    axes.axvline(found["loops"], color=GREY, ls=":", lw=1)
    axes.set_xlabel("loop k")


def _lines(*lines: tuple[str, dict[str, Any]], label: str = "", scale: str = "linear") -> Draw:
    """Columns of the table against the loop."""

    def draw(axes: Axes, found: Results) -> None:
        for key, style in lines:
            axes.plot(*_column(found, key), **style)
        _loops(axes, found)
        axes.set_ylabel(label)
        if scale == "log":
            log_axis(axes, "y")
        else:
            axes.set_yscale(scale)

    return draw


def _norms(axes: Axes, found: Results) -> None:
    for index, name in enumerate(("mean", "median", "p99", "max")):
        axes.plot(*_column(found, "norm", name), **styled(index), markevery=4, label=name)
    loops, mean = _column(found, "norm", "mean")
    std = _column(found, "norm", "std")[1]
    axes.fill_between(loops, np.maximum(mean - std, 0), mean + std, color=BLUE, alpha=0.15, lw=0)
    _loops(axes, found)
    log_axis(axes, "y")


def _alignment(axes: Axes, found: Results) -> None:
    axes.plot(*_column(found, "r"), marker="o", color=BLUE, label="r = |cos(∇L, h)|")
    axes.axhline(found["random_r"], color=ORANGE, ls="--", label="√(2/πD), random")
    _loops(axes, found)
    log_axis(axes, "y")


def _future(axes: Axes, found: Results) -> None:
    for index, t in enumerate((1, 2, 4)):
        rows = [row for row in found["by_loop"] if f"g_{t}" in row]
        slopes = np.abs(numbers([row[f"g_{t}"] for row in rows]))
        axes.plot(numbers([row["scale"] for row in rows]), slopes, label=f"t = {t}", **styled(index))
    axes.set(xlabel="s_k", ylabel="|∂L_{k+t}/∂log s_k|")
    log_axis(axes, "x")
    log_axis(axes, "y")


def _clamp(axes: Axes, found: Results) -> None:
    names = [f"{mode}\nnorm × {number(row['norm_ratio'], '.2f')}" for mode, row in found["clamp"].items()]
    axes.bar(names, numbers([row["delta_ce"] for row in found["clamp"].values()]), color=BLUE, width=0.5)
    axes.axhline(0, color=GREY, lw=1)
    axes.set_ylabel("ΔCE (nats)")


def _sweep(axes: Axes, found: Results) -> None:
    rows = found["scale_sweep"]
    losses = numbers([row["ce"] for row in rows])
    axes.plot([row["alpha"] for row in rows], losses, marker="o", color=BLUE)
    margin = max(0.05, 0.05 * float(np.ptp(losses)))  # flat shall look flat
    axes.set(ylim=(losses.min() - margin, losses.max() + margin))
    axes.set(xlabel="α", ylabel="CE of the readout of α·h_K (nats)")
    log_axis(axes, "x")


def _exact(axes: Axes, found: Results) -> None:
    axes.plot(*_column(found, "exact"), marker="o", color=BLUE)
    _loops(axes, found)
    shares_axis(axes, "exact")


def _charts(title: str, draw: Draw) -> Charts:
    def charts(results: Results) -> list[Chart]:
        found = results["blind_spot"]
        finite = np.isfinite(_column(found, "norm", "mean")[1]).all()

        def drawn(axes: Axes) -> None:
            if not finite:
                axes.text(0.5, 0.5, "the state diverged", ha="center")
                return
            draw(axes, found)
            legend(axes)

        return [Chart(title, "the numbers are in the table" if finite else "the state diverged", drawn)]

    return charts


DOTS, CROSSES = {"marker": "o", "color": BLUE}, {"marker": "x", "ls": "", "color": ORANGE, "ms": 4}
UPDATE = (
    ("a_rad", {"color": BLUE, "label": "a_rad"}),
    ("scale_step", CROSSES | {"label": "step of s"}),
    ("b", {"color": GREY, "ls": "--", "label": "‖b‖ rms"}),
)
ANGLE = (
    ("b_perp", {"color": BLUE, "label": "‖b_⊥‖ rms"}),
    ("angular", CROSSES | {"label": "‖u′ − u‖ rms · s"}),
)
CHARTS: dict[str, tuple[str, Draw]] = {
    "norms": ("token norms ‖h‖₂", _norms),
    "alignment": ("how much of the readout's gradient is radial", _alignment),
    "radial": ("signed radial derivative", _lines(("g", DOTS), label="g = ∂L/∂log s")),
    "future": ("slope of later losses", _future),
    "update": ("radial part of the loop's update", _lines(*UPDATE, scale="symlog")),
    "angle": ("angular part of the loop's update", _lines(*ANGLE, scale="log")),
    "clamp": ("the scale held from loop 1", _clamp),
    "sweep": ("scale sweep", _sweep),
    "depth": ("cross-entropy by loop", _lines(("ce", DOTS), label="CE (nats)", scale="log")),
    "exact": ("exact by loop", _exact),
}

NOTE = """The head reads h = s·u. r: mean |cos| between the loss's gradient and h; g: ∂L/∂log s; g_t: ∂L/∂log s for the
loss read t loops later; a_rad and b_⊥: the parts of a loop's update along u and across it. Clamped: the scale s of
every token is held from loop 1 on."""

BLIND_SPOT = Section(
    "blind_spot",
    "The readout's blind spot",
    _tables,
    {f"blind_spot_{name}": _charts(*what) for name, what in CHARTS.items()},
    lambda _: NOTE,
    precision="float64",
    place=90,
)
