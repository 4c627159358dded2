"""Figures of what an evaluation found beyond accuracy: results → PNG. Reads results, never models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

Results = Mapping[str, Any]
BLUE, ORANGE, GREY = "#1b6ca8", "#e07b39", "grey"


def draw_blind_spot(found: Results, folder: Path) -> list[Path]:
    """One PNG for each probe of the readout blind spot; returns their paths, none for a state that diverged."""
    if not np.isfinite(_column(found, "norm", "mean")[1]).all():
        return []
    return [_drawn(folder / f"blind_spot_{name}.png", drawer, found) for name, drawer in BLIND_SPOT.items()]


def draw_exits(found: Results, folder: Path) -> Path:
    """exits.png: accuracy against mean loops, and where the gate leaves."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), dpi=150, layout="constrained")
    for kind, colour, marker in (("fixed", GREY, "s"), ("gate", BLUE, "o")):
        rows = sorted(found[kind], key=lambda row: row["mean_loops"])
        left.plot([r["mean_loops"] for r in rows], [r["exact"] for r in rows], marker, color=colour, ls="-", label=kind)
    left.set(xlabel="mean loops of a cell", ylabel="exact", ylim=(0, 1.02))
    left.grid(alpha=0.3)
    left.legend(loc="lower right")
    right.bar(range(1, found["loops"] + 1), found["p"], color=BLUE)
    right.set(xlabel="loop t", ylabel="mean p(t)", xticks=range(1, found["loops"] + 1))
    path = folder / "exits.png"
    figure.savefig(path)
    plt.close(figure)
    return path


def _drawn(path: Path, drawer: Callable[[Axes, Results], None], found: Results) -> Path:
    figure, axes = plt.subplots(figsize=(6, 4), dpi=150, layout="constrained")
    drawer(axes, found)
    axes.grid(alpha=0.3)
    if axes.get_legend_handles_labels()[0]:
        axes.legend()
    figure.savefig(path)
    plt.close(figure)
    return path


def _column(found: Results, *keys: str) -> tuple[list[int], list[Any]]:
    """Loops and values, where a loop has one."""
    loops, values = [], []
    for row in found["by_loop"]:
        value: Any = row
        for key in keys:
            value = value.get(key) if value is not None else None
        if value is not None:
            loops.append(row["loop"])
            values.append(value)
    return loops, values


def _loops(axes: Axes, found: Results) -> None:
    axes.axvline(found["loops"], color=GREY, ls=":", lw=1, label="trained to here")
    axes.set_xlabel("loop k")


def _norms(axes: Axes, found: Results) -> None:
    for name, style in (("mean", "-"), ("median", "--"), ("p99", "-."), ("max", ":")):
        axes.plot(*_column(found, "norm", name), style, color=BLUE, label=name)
    loops, mean = _column(found, "norm", "mean")
    std = _column(found, "norm", "std")[1]
    axes.fill_between(loops, [max(m - s, 0) for m, s in zip(mean, std, strict=True)],
                      [m + s for m, s in zip(mean, std, strict=True)], color=BLUE, alpha=0.15, lw=0)  # fmt: skip
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
    names = [f"{mode}\nnorm × {row['norm_ratio']:.2f}" for mode, row in found["clamp"].items()]
    axes.bar(names, [row["delta_ce"] for row in found["clamp"].values()], color=BLUE, width=0.5)
    axes.axhline(0, color=GREY, lw=1)
    axes.set(ylabel="ΔCE (nats)", title=f"the scale held from loop 1 to {found['loops']}")


def _sweep(axes: Axes, found: Results) -> None:
    rows = found["scale_sweep"]
    losses = [row["ce"] for row in rows]
    axes.plot([row["alpha"] for row in rows], losses, marker="o", ms=3, color=BLUE)
    margin = max(0.05, 0.05 * (max(losses) - min(losses)))  # flat shall look flat
    axes.set(ylim=(min(losses) - margin, max(losses) + margin))
    axes.set(xscale="log", xlabel="α", ylabel="CE of the readout of α·h_K (nats)", title="scale sweep")


def _depth(axes: Axes, found: Results) -> None:
    axes.plot(*_column(found, "ce"), marker="o", ms=3, color=BLUE, label="CE (left)")
    _loops(axes, found)
    axes.set(ylabel="CE (nats)", yscale="log", title=f"CE(1) − CE({found['loops']}) = {found['ce_gap']:.3g}")
    exact = axes.twinx()
    exact.plot(*_column(found, "exact"), marker="o", ms=3, color=ORANGE)
    exact.set(ylabel="exact", ylim=(0, 1.02))
    axes.plot([], [], color=ORANGE, marker="o", ms=3, label="exact (right)")


BLIND_SPOT: dict[str, Callable[[Axes, Results], None]] = {
    "norms": _norms,
    "alignment": _alignment,
    "radial": _radial,
    "update": _update,
    "angle": _angle,
    "clamp": _clamp,
    "sweep": _sweep,
    "depth": _depth,
}
