"""An ablation's runs side by side: mean and spread over seeds, and what a variant changes, paired by seed."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from scipy.stats import t as student

from reason.report.figure import COLOURS, save_png, svg
from reason.report.page import comparison_page
from reason.report.section import Results, number, share

COLUMNS = (
    "variant", "seeds", "parameters", "exact at the trained step", "at the last step", "against the base",
    "95 % interval", "verdict",
)  # fmt: skip
CONFIDENCE = 0.95


def summary(variants: Sequence[str], runs: Mapping[str, Mapping[int, Results]]) -> list[dict[str, Any]]:
    """A row for every variant, the base first; `runs`: results by variant and seed."""
    base = {seed: _exact(results) for seed, results in runs.get(variants[0], {}).items()}
    rows = []
    for name in variants:
        found = runs.get(name, {})
        exact = {seed: _exact(results) for seed, results in found.items()}
        paired = [exact[seed] - base[seed] for seed in sorted(exact.keys() & base.keys())]
        rows.append(
            {
                "variant": name,
                "seeds": sorted(found),
                "parameters": next((results["parameters"] for results in found.values()), None),
                "puzzles": next((results["puzzles"] for results in found.values()), None),
                "exact": spread(list(exact.values())),
                "last": spread([results["exact_by_step"][-1] for results in found.values()]),
                "difference": None if name == variants[0] else difference(paired),
            }
        )
    return rows


def _exact(results: Results) -> float:
    """Exact accuracy at the last trained step."""
    return float(results["exact_by_step"][min(results["trained_steps"], results["steps"]) - 1])


def spread(values: Sequence[float]) -> dict[str, float | None]:
    """Mean and standard deviation (n − 1); None of too few."""
    return {
        "mean": float(np.mean(values)) if len(values) else None,
        "sd": float(np.std(values, ddof=1)) if len(values) > 1 else None,
    }


def difference(paired: Sequence[float]) -> dict[str, Any]:
    """Mean of differences paired by seed, its 95 % interval by Student's t (None of one pair), and a verdict."""
    if not paired:
        return {"mean": None, "low": None, "high": None, "verdict": "not run"}
    mean = float(np.mean(paired))
    if len(paired) == 1:
        return {"mean": mean, "low": None, "high": None, "verdict": "one seed"}
    half = float(student.ppf((1 + CONFIDENCE) / 2, len(paired) - 1) * np.std(paired, ddof=1) / len(paired) ** 0.5)
    low, high = mean - half, mean + half
    verdict = "better" if low > 0 else "worse" if high < 0 else "not seen"
    return {"mean": mean, "low": low, "high": high, "verdict": verdict}


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


NOTE = (
    "Mean ± standard deviation over seeds. Differences are paired by seed; intervals are Student's t at 95 %, not "
    "adjusted for the number of variants. Runs take as many puzzle-steps as the base."
)


def write_ablation(
    folder: Path, title: str, variants: Sequence[str], runs: Mapping[str, Mapping[int, Results]]
) -> list[dict[str, Any]]:
    """summary.json, .csv, .png and .html in `folder`; returns the summary."""
    rows = summary(variants, runs)
    together = {"variants": list(variants), "runs": {name: list(runs.get(name, {}).values()) for name in variants}}
    (folder / "summary.json").write_text(json.dumps({"title": title, "rows": rows}, indent=2) + "\n")
    (folder / "summary.csv").write_text(_csv(variants, runs))
    save_png(_plot, together, folder / "summary.png")
    page = comparison_page(title, COLUMNS, table_rows(rows), svg(_plot, together, "summary"), [NOTE])
    (folder / "summary.html").write_text(page, encoding="utf-8")
    return rows


def _csv(variants: Sequence[str], runs: Mapping[str, Mapping[int, Results]]) -> str:
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["variant", "seed", "puzzles", "step", "exact", "cell"])
    for name in variants:
        for seed, results in sorted(runs.get(name, {}).items()):
            shares = zip(results["exact_by_step"], results["cell_by_step"], strict=True)
            for step, (exact, cell) in enumerate(shares, 1):
                writer.writerow([name, seed, results["puzzles"], step, f"{exact:.6g}", f"{cell:.6g}"])
    return out.getvalue()


def _plot(figure: Figure, together: Results) -> None:
    """Exact by step: the mean over seeds, a band from the least to the largest."""
    axes = figure.subplots()
    for index, name in enumerate(together["variants"]):
        curves = [results["exact_by_step"] for results in together["runs"][name]]
        if not curves:
            continue
        count = min(map(len, curves))
        exact = np.array([curve[:count] for curve in curves])
        colour, style = COLOURS[index % len(COLOURS)], ("-", "--", ":")[index // len(COLOURS) % 3]
        steps = np.arange(1, count + 1)
        axes.plot(steps, exact.mean(0), style, marker="o", ms=3, color=colour, label=name.replace("$", r"\$"))
        axes.fill_between(steps, exact.min(0), exact.max(0), color=colour, alpha=0.15, lw=0)
    axes.set(xlabel="supervision steps", ylabel="exact, mean and range of the seeds", ylim=(-0.02, 1.02))
    axes.xaxis.set_major_locator(matplotlib.ticker.MaxNLocator(integer=True))
    axes.grid(alpha=0.25)
    axes.legend(fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
