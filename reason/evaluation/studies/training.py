"""The training that made the weights."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from reason.report.chart import Chart, label_ends, log_axis, shares_axis
from reason.report.palette import BLUE, GREY, ORANGE
from reason.report.section import Results, Section, number, share

SHARES = {"exact": ("training", BLUE, "-"), "monitor/exact": ("validation", ORANGE, "--")}


def _charts(results: Results) -> list[Chart]:
    curves, evaluated = results["training"], results["checkpoint_step"]
    found = []

    def loss(axes: Axes) -> None:
        steps, values = np.transpose(curves["loss"])
        axes.plot(steps, values, color=BLUE)
        axes.set_xlabel("optimizer steps")
        if (values > 0).all():
            log_axis(axes, "y")
        axes.axvline(evaluated, color=GREY, ls=":", lw=1.2)

    def exact(axes: Axes) -> None:
        for key, (label, colour, style) in SHARES.items():
            if key in curves:
                steps, values = np.transpose(curves[key])
                axes.plot(steps, values, style, color=colour, label=label)
        axes.set_xlabel("optimizer steps")
        axes.axvline(evaluated, color=GREY, ls=":", lw=1.2)
        shares_axis(axes, "exact")
        label_ends(axes)

    if "loss" in curves:
        found.append(Chart("loss", _ends(curves["loss"], number), loss))
    known = [key for key in SHARES if key in curves]
    if known:
        says = "; ".join(f"{SHARES[key][0]} {_ends(curves[key], share)}" for key in known)
        found.append(Chart("exact while training", says, exact))
    return found


def _ends(points: list[list[float]], text: object) -> str:
    (first, was), (last, now) = points[0], points[-1]
    return f"{text(was)} at step {first:g}, {text(now)} at step {last:g}"  # type: ignore[operator]


NOTE = """From metrics.jsonl. Training: rows that halted since the line before; validation: the averaged weights on the
validation split. Dotted: the checkpoint that is evaluated here."""

TRAINING = Section("training", "Training", charts={"training": _charts}, note=lambda _: NOTE)
