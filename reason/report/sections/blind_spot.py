"""The readout blind spot: what the loss does not see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reason.report.figure import BLUE, ORANGE, numbers
from reason.report.section import Plot, Results, Section, Table, number, share, shown_steps

GREY = "grey"


def tables(results: Results) -> list[Table]:
    """Loop by loop, and the clamped scale."""
    found = results["blind_spot"]
    rows = [
        [
            str(loop),
            *(number(row["norm"][key]) for key in ("mean", "p99")),
            *(number(row[key], ".1e") for key in ("r", "g")),
            *(number(row.get(key), ".1e") for key in ("g_1", "g_4")),
            *(number(row.get(key)) for key in ("a_rad", "b_perp")),
            number(row["ce"]),
            share(row["exact"]),
        ]
        for loop in shown_steps(len(found["by_loop"]), found["loops"])
        for row in found["by_loop"][loop - 1 : loop]
    ]
    columns = ("loop", "‖h‖ mean", "p99", "r", "g", "g_1", "g_4", "a_rad", "‖b_⊥‖", "CE", "exact")
    clamps = [
        [way, *(number(row[key], ".4f") for key in ("ce", "clamped_ce", "delta_ce")), number(row["norm_ratio"], ".2f")]
        for way, row in found["clamp"].items()
    ]
    return [
        Table(f"readout blind spot, {found['puzzles']} puzzles", columns, rows),
        Table("the scale held from loop 1 on", ("way", "CE", "clamped", "ΔCE", "norm ratio"), clamps),
    ]


def records(results: Results) -> list[dict[str, Any]]:
    """A line for every loop."""
    rows = results["blind_spot"]["by_loop"]
    names = list(dict.fromkeys(key for row in rows for key in row if key != "norm"))
    return [
        {key: row.get(key) for key in names} | {f"norm_{name}": value for name, value in row["norm"].items()}
        for row in rows
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
    axes.axvline(found["loops"], color=GREY, ls=":", lw=1, label="trained to here")
    axes.set_xlabel("loop k")


def _norms(axes: Axes, found: Results) -> None:
    for name, style in (("mean", "-"), ("median", "--"), ("p99", "-."), ("max", ":")):
        axes.plot(*_column(found, "norm", name), style, color=BLUE, label=name)
    loops, mean = _column(found, "norm", "mean")
    std = _column(found, "norm", "std")[1]
    axes.fill_between(loops, np.maximum(mean - std, 0), mean + std, color=BLUE, alpha=0.15, lw=0)
    _loops(axes, found)
    axes.set(ylabel="‖h‖₂ of a token", yscale="log", title="token norms")


def _alignment(axes: Axes, found: Results) -> None:
    axes.plot(*_column(found, "r"), marker="o", ms=3, color=BLUE, label="r = |cos(∇L, h)|")
    axes.axhline(found["random_r"], color=ORANGE, ls="--", label="random direction √(2/πD)")
    _loops(axes, found)
    axes.set(yscale="log", title="how much of the readout's gradient is radial")


def _radial(axes: Axes, found: Results) -> None:
    axes.plot(*_column(found, "g"), marker="o", ms=3, color=BLUE)
    _loops(axes, found)
    axes.set(ylabel="g = ∂L/∂log s", title="signed radial derivative")


def _future(axes: Axes, found: Results) -> None:
    for t, color in ((1, BLUE), (2, ORANGE), (4, GREY)):
        rows = [row for row in found["by_loop"] if f"g_{t}" in row]
        slopes = np.abs(numbers([row[f"g_{t}"] for row in rows]))
        axes.plot(numbers([row["scale"] for row in rows]), slopes, marker="o", ms=3, color=color, label=f"t = {t}")
    axes.set(xlabel="s_k", ylabel="|∂L_{k+t}/∂log s_k|", xscale="log", yscale="log", title="slope of later losses")


def _update(axes: Axes, found: Results) -> None:
    axes.plot(*_column(found, "a_rad"), color=BLUE, label="a_rad")
    axes.plot(*_column(found, "scale_step"), "x", color=ORANGE, ms=4, label="measured step of s")
    axes.plot(*_column(found, "b"), color=GREY, ls="--", label="‖b‖ rms")
    _loops(axes, found)
    axes.set(yscale="symlog", title="radial part of the loop's update")


def _angle(axes: Axes, found: Results) -> None:
    axes.plot(*_column(found, "b_perp"), color=BLUE, label="‖b_⊥‖ rms")
    axes.plot(*_column(found, "angular"), "x", color=ORANGE, ms=4, label="‖u′ − u‖ rms · s")
    _loops(axes, found)
    axes.set(yscale="log", title="angular part of the loop's update")


def _clamp(axes: Axes, found: Results) -> None:
    names = [f"{mode}\nnorm × {number(row['norm_ratio'], '.2f')}" for mode, row in found["clamp"].items()]
    axes.bar(names, numbers([row["delta_ce"] for row in found["clamp"].values()]), color=BLUE, width=0.5)
    axes.axhline(0, color=GREY, lw=1)
    axes.set(ylabel="ΔCE (nats)", title=f"the scale held from loop 1 to {found['loops']}")


def _sweep(axes: Axes, found: Results) -> None:
    rows = found["scale_sweep"]
    losses = numbers([row["ce"] for row in rows])
    axes.plot([row["alpha"] for row in rows], losses, marker="o", ms=3, color=BLUE)
    margin = max(0.05, 0.05 * float(np.ptp(losses)))  # flat shall look flat
    axes.set(ylim=(losses.min() - margin, losses.max() + margin))
    axes.set(xscale="log", xlabel="α", ylabel="CE of the readout of α·h_K (nats)", title="scale sweep")


def _depth(axes: Axes, found: Results) -> None:
    axes.plot(*_column(found, "ce"), marker="o", ms=3, color=BLUE, label="CE (left)")
    _loops(axes, found)
    axes.set(ylabel="CE (nats)", yscale="log", title=f"CE(1) − CE({found['loops']}) = {number(found['ce_gap'])}")
    exact = axes.twinx()
    exact.plot(*_column(found, "exact"), marker="o", ms=3, color=ORANGE)
    exact.set(ylabel="exact", ylim=(0, 1.02))
    axes.plot([], [], color=ORANGE, marker="o", ms=3, label="exact (right)")


def _plot(draw: Callable[[Axes, Results], None]) -> Plot:
    def plot(figure: Figure, results: Results) -> None:
        axes, found = figure.subplots(), results["blind_spot"]
        if not np.isfinite(_column(found, "norm", "mean")[1]).all():
            axes.text(0.5, 0.5, "the state diverged", ha="center")
            return
        draw(axes, found)
        axes.grid(alpha=0.3)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize="small")

    return plot


PLOTS = {
    "norms": _norms,
    "alignment": _alignment,
    "radial": _radial,
    "future": _future,
    "update": _update,
    "angle": _angle,
    "clamp": _clamp,
    "sweep": _sweep,
    "depth": _depth,
}

NOTE = """h = s·u is what the head reads. r: mean |cos| of the loss's gradient with h; g: ∂L/∂log s, g_t: the
same of the loss read t loops later; a_rad and b_⊥: the
parts of a loop's update along u and across it. Clamped: the scale s of every token held from loop 1 on."""

BLIND_SPOT = Section(
    "blind_spot",
    "The readout's blind spot",
    tables,
    {f"blind_spot_{name}": _plot(draw) for name, draw in PLOTS.items()},
    {"blind_spot": records},
    lambda _: NOTE,
)
