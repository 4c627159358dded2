"""Compares an ablation's runs: mean and spread over seeds, and the effect of a variant, paired by seed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from scipy.stats import ttest_1samp

from reason.report.chart import PANEL, Chart, errors_axis, legend, save_png, shares_axis, steps_axis
from reason.report.measures import EXACT, MEASURES, shared_measures
from reason.report.page import comparison_page
from reason.report.palette import styled
from reason.report.section import Results, Table, at_trained, number

AT = ("trained", "last")  # steps of a summary
NOTE = (
    "Mean ± standard deviation over seeds. Differences are paired by seed; intervals are Student's t at 95 %, not "
    "adjusted for the number of variants. Runs take as many puzzle-steps as the base, unless training.steps is varied "
    "or with --as-published."
)
Runs = Mapping[str, Mapping[int, Results]]  # results by variant, the base first, and seed


def summary(runs: Runs) -> list[dict[str, Any]]:
    """Summarise the runs: a row of numbers for every variant."""
    key = measured(runs)
    trained = {
        name: {seed: value for seed, results in by_seed.items() if (value := at_trained(results, key)) is not None}
        for name, by_seed in runs.items()
    }
    base = next(iter(runs))
    return [
        {
            "variant": name,
            "seeds": sorted(by_seed),
            "parameters": next((results["parameters"] for results in by_seed.values()), None),
            "minutes": spread([results["minutes"] for results in by_seed.values()])["mean"],
            "trained": spread(list(trained[name].values())),
            "last": spread([last for results in by_seed.values() if (last := results[key][-1]) is not None]),
            "difference": None if name == base else difference(trained[name], trained[base], key in MEASURES),
        }
        for name, by_seed in runs.items()
    ]


def measured(runs: Runs) -> str:
    """Return the key of the compared measure: one that all runs have, else exact accuracy."""
    return next(iter(shared_measures([each for seeds in runs.values() for each in seeds.values()])), "exact_by_step")


def spread(values: Sequence[float]) -> dict[str, float | None]:
    """Return the mean and standard deviation (n − 1); None for too few values."""
    return {
        "mean": float(np.mean(values)) if len(values) else None,
        "sd": float(np.std(values, ddof=1)) if len(values) > 1 else None,
    }


def difference(ours: Mapping[int, float], theirs: Mapping[int, float], less: bool = False) -> dict[str, Any]:
    """Return the mean of the differences ours − theirs, by seed, its 95 % interval by Student's t, and a verdict.

    One pair and equal pairs have no interval. less: smaller values are better.
    """
    seeds = sorted(ours.keys() & theirs.keys())
    paired = [ours[seed] - theirs[seed] for seed in seeds]
    result: dict[str, Any] = {"mean": float(np.mean(paired)) if paired else None, "low": None, "high": None}
    if not paired:
        return result | {"verdict": "not run"}
    if not any(ours[seed] or theirs[seed] for seed in seeds):
        return result | {"verdict": "all at 0 %"}
    if len(paired) == 1:
        return result | {"verdict": "one seed"}
    if np.ptp(paired) == 0:  # shares of few puzzles tie; an interval of width 0 would claim that seeds do not differ
        return result | {"verdict": "not significant"}
    low, high = map(float, ttest_1samp(paired, 0).confidence_interval(0.95))
    verdict = "not significant" if low <= 0 <= high else "worse" if (low > 0) == less else "better"
    return result | {"low": low, "high": high, "verdict": verdict}


def table(rows: Sequence[Mapping[str, Any]], key: str = "exact_by_step") -> Table:
    """Return the summary as a table of text; `key` is the measure of the summary."""
    name, form = MEASURES.get(key, EXACT)
    columns = ("variant", "seeds", "parameters", "minutes", f"{name} at the trained step", "at the last step",
               "against the base", "95 % interval", "verdict")  # fmt: skip
    shown = []
    for row in rows:
        effect = row["difference"] or {"mean": None, "low": None, "high": None, "verdict": ""}
        bounds = [number(effect[end], f"+{form}") for end in ("low", "high")]
        shown.append(
            [
                row["variant"],
                str(len(row["seeds"])),
                number(row["parameters"], ","),
                number(row["minutes"], ".1f"),
                *(" ± ".join(number(value, form) for value in row[at].values() if value is not None) for at in AT),
                "the base" if row["difference"] is None else number(effect["mean"], f"+{form}"),
                "–" if "–" in bounds else " to ".join(bounds),
                effect["verdict"],
            ]
        )
    return Table("mean over seeds", columns, shown, left=(0, 8))


def write_ablation(folder: Path, title: str, runs: Runs) -> Table:
    """Write summary.json, .png and .html to `folder`; returns the summary's table."""
    rows, drawn = summary(runs), charts(runs)
    (folder / "summary.json").write_text(json.dumps({"title": title, "rows": rows}, indent=2) + "\n", encoding="utf-8")
    save_png(drawn, folder / "summary.png")
    shown = table(rows, measured(runs))
    (folder / "summary.html").write_text(comparison_page(title, [shown], drawn, [NOTE]), encoding="utf-8")
    return shown


def charts(runs: Runs) -> list[Chart]:
    """Return charts of the measure by step and, for a share, of the error: lines for means, points for seeds."""
    trained = max(results["trained_steps"] for curve in runs.values() for results in curve.values())
    key = measured(runs)
    name_of_measure, form = MEASURES.get(key, EXACT)
    logged = {name: [each[key] for each in curve.values()] for name, curve in runs.items() if curve}
    curves = {name: np.array([one[: min(map(len, curve))] for one in curve]) for name, curve in logged.items()}

    def draw(axes: Axes, errors: bool = False) -> None:
        for index, (name, curve) in enumerate(curves.items()):
            style, steps = styled(index), np.arange(1, curve.shape[1] + 1)
            shown = 1 - curve if errors else curve
            axes.plot(steps, shown.mean(0), label=name, markevery=max(1, len(steps) // 16), **style)
            axes.plot(steps, shown.T, ls="", marker=".", ms=3, color=style["color"], alpha=0.5)
        longest = max(curve.shape[1] for curve in curves.values())
        label = f"{name_of_measure}, mean and seeds"
        if errors:
            errors_axis(axes)
        elif key not in MEASURES:
            shares_axis(axes, label)
        else:
            axes.set_ylabel(label)
        steps_axis(axes, {"steps": longest, "trained_steps": trained})
        legend(axes)

    alt_text = "; ".join(f"{name}: {curve[:, -1].mean():{form}} at the last step" for name, curve in curves.items())
    size = (PANEL[0], max(PANEL[1], 0.17 * len(curves) + 0.8))
    drawn = {name_of_measure: draw} | ({} if key in MEASURES else {"error, 1 − exact": partial(draw, errors=True)})
    return [Chart(title, alt_text, each, size) for title, each in drawn.items()]
