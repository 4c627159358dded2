"""The readout blind spot: what the loss does not see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from reason.report.axes import label_ends, log_axis, numbers, shares_axis
from reason.report.chart import Chart
from reason.report.palette import BLUE, GREY, ORANGE, styled
from reason.report.section import Charts, Results, Section, Table, number, rows_shown, share


def tables(results: Results) -> list[Table]:
    """Loop by loop, and the clamped scale."""
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
    axes.axvline(found["loops"], color=GREY, ls=":", lw=1)
    axes.set_xlabel("loop k")


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


def _radial(axes: Axes, found: Results) -> None:
    axes.plot(*_column(found, "g"), marker="o", color=BLUE)
    _loops(axes, found)
    axes.set_ylabel("g = ∂L/∂log s")


def _future(axes: Axes, found: Results) -> None:
    for index, t in enumerate((1, 2, 4)):
        rows = [row for row in found["by_loop"] if f"g_{t}" in row]
        slopes = np.abs(numbers([row[f"g_{t}"] for row in rows]))
        axes.plot(numbers([row["scale"] for row in rows]), slopes, label=f"t = {t}", **styled(index))
    axes.set(xlabel="s_k", ylabel="|∂L_{k+t}/∂log s_k|")
    log_axis(axes, "x")
    log_axis(axes, "y")


def _update(axes: Axes, found: Results) -> None:
    axes.plot(*_column(found, "a_rad"), color=BLUE, label="a_rad")
    axes.plot(*_column(found, "scale_step"), "x", color=ORANGE, ms=4, label="step of s")
    axes.plot(*_column(found, "b"), color=GREY, ls="--", label="‖b‖ rms")
    _loops(axes, found)
    axes.set_yscale("symlog")


def _angle(axes: Axes, found: Results) -> None:
    axes.plot(*_column(found, "b_perp"), color=BLUE, label="‖b_⊥‖ rms")
    axes.plot(*_column(found, "angular"), "x", color=ORANGE, ms=4, label="‖u′ − u‖ rms · s")
    _loops(axes, found)
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


def _depth(axes: Axes, found: Results) -> None:
    axes.plot(*_column(found, "ce"), marker="o", color=BLUE)
    _loops(axes, found)
    axes.set_ylabel("CE (nats)")
    log_axis(axes, "y")


def _exact(axes: Axes, found: Results) -> None:
    axes.plot(*_column(found, "exact"), marker="o", color=BLUE)
    _loops(axes, found)
    shares_axis(axes, "exact")


def _charts(title: str, draw: Callable[[Axes, Results], None]) -> Charts:
    def charts(results: Results) -> list[Chart]:
        found = results["blind_spot"]
        finite = np.isfinite(_column(found, "norm", "mean")[1]).all()

        def drawn(axes: Axes) -> None:
            if not finite:
                axes.text(0.5, 0.5, "the state diverged", ha="center")
                return
            draw(axes, found)
            label_ends(axes)

        return [Chart(title, "the numbers are in the table" if finite else "the state diverged", drawn)]

    return charts


CHARTS = {
    "norms": ("token norms ‖h‖₂", _norms),
    "alignment": ("how much of the readout's gradient is radial", _alignment),
    "radial": ("signed radial derivative", _radial),
    "future": ("slope of later losses", _future),
    "update": ("radial part of the loop's update", _update),
    "angle": ("angular part of the loop's update", _angle),
    "clamp": ("the scale held from loop 1", _clamp),
    "sweep": ("scale sweep", _sweep),
    "depth": ("cross-entropy by loop", _depth),
    "exact": ("exact by loop", _exact),
}

NOTE = """h = s·u is what the head reads. r: mean |cos| of the loss's gradient with h; g: ∂L/∂log s, g_t: the
same of the loss read t loops later; a_rad and b_⊥: the
parts of a loop's update along u and across it. Clamped: the scale s of every token held from loop 1 on."""

BLIND_SPOT = Section(
    "blind_spot",
    "The readout's blind spot",
    tables,
    {f"blind_spot_{name}": _charts(*what) for name, what in CHARTS.items()},
    {"blind_spot": records},
    lambda _: NOTE,
    precision="float64",
)
