"""An ablation's runs side by side: mean and spread over seeds, and what a variant changes, paired by seed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from scipy.stats import ttest_1samp

from reason.report.chart import PANEL, Chart, curves_by_step, save_png
from reason.report.page import comparison_page
from reason.report.palette import styled
from reason.report.section import Results, Table, number, share

COLUMNS = (
    "variant", "seeds", "parameters", "exact at the trained step", "at the last step", "against the base",
    "95 % interval", "verdict",
)  # fmt: skip
NOTE = (
    "Mean ± standard deviation over seeds. Differences are paired by seed; intervals are Student's t at 95 %, not "
    "adjusted for the number of variants. Runs take as many puzzle-steps as the base, unless training.steps is varied."
)
Runs = Mapping[str, Mapping[int, Results]]  # results by variant, the base first, and seed


def summary(runs: Runs) -> list[dict[str, Any]]:
    """A row for every variant."""
    at_trained = {name: {seed: exact(results) for seed, results in found.items()} for name, found in runs.items()}
    base = next(iter(runs))
    return [
        {
            "variant": name,
            "seeds": sorted(found),
            "parameters": next((results["parameters"] for results in found.values()), None),
            "exact": spread(list(at_trained[name].values())),
            "last": spread([results["exact_by_step"][-1] for results in found.values()]),
            "difference": None if name == base else difference(at_trained[name], at_trained[base]),
        }
        for name, found in runs.items()
    ]


def exact(results: Results) -> float:
    """Exact accuracy at the last trained step."""
    return float(results["exact_by_step"][min(results["trained_steps"], results["steps"]) - 1])


def spread(values: Sequence[float]) -> dict[str, float | None]:
    """Mean and standard deviation (n − 1); None of too few."""
    return {
        "mean": float(np.mean(values)) if len(values) else None,
        "sd": float(np.std(values, ddof=1)) if len(values) > 1 else None,
    }


def difference(ours: Mapping[int, float], theirs: Mapping[int, float]) -> dict[str, Any]:
    """Mean of the differences ours − theirs, {seed: exact}, its 95 % interval by Student's t, and a verdict.

    Of one pair, and of equal ones, there is no interval.
    """
    seeds = sorted(ours.keys() & theirs.keys())
    paired = [ours[seed] - theirs[seed] for seed in seeds]
    found: dict[str, Any] = {"mean": float(np.mean(paired)) if paired else None, "low": None, "high": None}
    if not paired:
        return found | {"verdict": "not run"}
    if not any(ours[seed] or theirs[seed] for seed in seeds):
        return found | {"verdict": "all at 0 %"}
    if len(paired) == 1:
        return found | {"verdict": "one seed"}
    if np.ptp(paired) == 0:  # shares of few puzzles tie; an interval of no width would say that no seed can differ
        return found | {"verdict": "not significant"}
    low, high = map(float, ttest_1samp(paired, 0).confidence_interval(0.95))
    verdict = "better" if low > 0 else "worse" if high < 0 else "not significant"
    return found | {"low": low, "high": high, "verdict": verdict}


def table_rows(rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """The summary as text."""
    shown = []
    for row in rows:
        found = row["difference"]
        between = "–" if found is None or found["low"] is None else f"{100 * found['low']:+.1f} to {found['high']:+.1%}"
        shown.append(
            [
                row["variant"],
                str(len(row["seeds"])),
                "–" if row["parameters"] is None else f"{row['parameters']:,}",
                _spread_text(row["exact"]),
                _spread_text(row["last"]),
                "the base" if found is None else number(found["mean"], "+.1%"),
                between,
                "" if found is None else found["verdict"],
            ]
        )
    return shown


def _spread_text(found: Mapping[str, float | None]) -> str:
    return share(found["mean"]) + ("" if found["sd"] is None else f" ± {100 * found['sd']:.1f}")


def write_ablation(folder: Path, title: str, runs: Runs) -> list[dict[str, Any]]:
    """summary.json, .png and .html in `folder`; returns the summary."""
    rows, found = summary(runs), [chart(runs)]
    (folder / "summary.json").write_text(json.dumps({"title": title, "rows": rows}, indent=2) + "\n", encoding="utf-8")
    save_png(found, folder / "summary.png")
    table = Table("mean over seeds", COLUMNS, table_rows(rows), left=(0, 7))
    page = comparison_page(title, [table], found, [NOTE])
    (folder / "summary.html").write_text(page, encoding="utf-8")
    return rows


def chart(runs: Runs) -> Chart:
    """Exact by step, a line a variant: the mean over seeds, a band from the least to the largest."""
    trained = max(results["trained_steps"] for found in runs.values() for results in found.values())
    logged = {name: [each["exact_by_step"] for each in found.values()] for name, found in runs.items() if found}
    curves = {name: np.array([one[: min(map(len, found))] for one in found]) for name, found in logged.items()}

    def draw(axes: Axes) -> None:
        for index, (name, found) in enumerate(curves.items()):
            style, steps = styled(index), np.arange(1, found.shape[1] + 1)
            axes.plot(steps, found.mean(0), label=name, markevery=max(1, len(steps) // 16), **style)
            axes.fill_between(steps, found.min(0), found.max(0), color=style["color"], alpha=0.15, lw=0)
        longest = max(found.shape[1] for found in curves.values())
        curves_by_step(axes, "exact, mean and range of the seeds", {"steps": longest, "trained_steps": trained})

    says = "; ".join(f"{name}: {share(found[:, -1].mean())} at the last step" for name, found in curves.items())
    return Chart("exact: whole puzzles right", says, draw, (PANEL[0], max(PANEL[1], 0.17 * len(curves) + 0.8)))
