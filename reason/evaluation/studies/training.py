"""The report's section about the training: curves of loss and accuracy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes

from reason.report.chart import Chart, legend, log_axis, shares_axis
from reason.report.palette import BLUE, GREY, ORANGE
from reason.report.section import Results, Section, number, share

SHARES = {"exact": ("training", BLUE, "-"), "monitor/exact": ("validation", ORANGE, "--")}


def _charts(results: Results) -> list[Chart]:
    curves, evaluated = results["training"], results["checkpoint_step"]

    def loss(axes: Axes) -> None:
        steps, values = np.transpose(curves["loss"])
        axes.plot(steps, values, color=BLUE)
        if (values > 0).all():
            log_axis(axes, "y")
        _optimizer_steps(axes, evaluated)

    def exact(axes: Axes) -> None:
        for key in known:
            label, colour, style = SHARES[key]
            axes.plot(*np.transpose(curves[key]), style, color=colour, label=label)
        _optimizer_steps(axes, evaluated)
        shares_axis(axes, "exact")
        legend(axes)

    known = [key for key in SHARES if key in curves]
    alt_text = "; ".join(f"{SHARES[key][0]} {_ends(curves[key], share)}" for key in known)
    charts = [Chart("loss", _ends(curves["loss"], number), loss)] if "loss" in curves else []
    return charts + ([Chart("exact while training", alt_text, exact)] if known else [])


def _optimizer_steps(axes: Axes, evaluated: int) -> None:
    axes.set_xlabel("optimizer steps")
    axes.axvline(evaluated, color=GREY, ls=":", lw=1.2)


def _ends(points: list[list[float]], text: Callable[[float], str]) -> str:
    (first, was), (last, now) = points[0], points[-1]
    return f"{text(was)} at step {first:g}, {text(now)} at step {last:g}"


NOTE = """From metrics.jsonl. Training: rows that halted since the line before; validation: the averaged weights on the
validation split. Dotted: the checkpoint that is evaluated here."""

TRAINING = Section("training", "Training", charts={"training": _charts}, note=lambda _: NOTE)
