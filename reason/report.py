"""results.json → table, CSV, picture and one self-contained page. Reads results, never models."""

from __future__ import annotations

import base64
import csv
import html
import json
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
from rich.table import Table
from scipy.stats import binomtest

Results = Mapping[str, Any]


def wilson_interval(share: float, count: int) -> tuple[float, float]:
    """The 95 % Wilson interval of a share seen among `count` puzzles."""
    interval = binomtest(round(share * count), count).proportion_ci(0.95, method="wilson")
    return float(interval.low), float(interval.high)


def headline(results: Results) -> str:
    """'exact 94.2 % [92.6, 95.5] of 1000 puzzles at step 8 (trained), …' in one line."""
    exact, trained = results["exact_by_step"], min(results["trained_steps"], results["steps"])
    low, high = wilson_interval(exact[trained - 1], results["puzzles"])
    return (
        f"exact {exact[trained - 1]:.1%} (95 % interval {low:.1%} to {high:.1%}) at step {trained}, {exact[0]:.1%} at "
        f"step 1, {exact[-1]:.1%} at step {results['steps']}; {results['puzzles']} puzzles ({results['split']})"
    )


def shown_steps(results: Results, at_most: int = 20) -> list[int]:
    """Steps worth a table row: all of them when few, else 1, powers of two, the trained and the last one."""
    steps, trained = results["steps"], results["trained_steps"]
    if steps <= at_most:
        return list(range(1, steps + 1))
    return sorted({1, *(2**k for k in range(1, 20) if 2**k < steps), min(trained, steps), steps})


def table(results: Results) -> Table:
    """Accuracy by supervision step for the terminal."""
    view = Table(title="accuracy by supervision step", title_justify="left")
    for column in ("step", "exact", "95 % interval", "cells", "says halt", ""):
        view.add_column(column, justify="left" if column == "" else "right")
    for step in shown_steps(results):
        exact = results["exact_by_step"][step - 1]
        low, high = wilson_interval(exact, results["puzzles"])
        view.add_row(
            str(step),
            f"{exact:.1%}",
            f"{low:.1%} – {high:.1%}",
            f"{results['cell_by_step'][step - 1]:.1%}",
            f"{results['halted_by_step'][step - 1]:.1%}",
            "← trained to here" if step == results["trained_steps"] else "",
        )
    return view


def csv_text(results: Results) -> str:
    """step, exact, exact_low, exact_high, cell, halted: one line a step, shares in [0, 1]."""
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["step", "exact", "exact_low", "exact_high", "cell", "halted"])
    for index, exact in enumerate(results["exact_by_step"]):
        low, high = wilson_interval(exact, results["puzzles"])
        row = (exact, low, high, results["cell_by_step"][index], results["halted_by_step"][index])
        writer.writerow([index + 1, *(f"{share:.6f}" for share in row)])
    return out.getvalue()


def plot(results: Results, path: Path) -> None:
    """The curve: exact with its interval and cell accuracy against supervision steps."""
    steps = range(1, results["steps"] + 1)
    exact = results["exact_by_step"]
    bounds = [wilson_interval(share, results["puzzles"]) for share in exact]
    figure, axes = plt.subplots(figsize=(7, 4), dpi=150, layout="constrained")
    axes.plot(steps, exact, marker="o", ms=3, color="#1b6ca8", label="exact (whole puzzle right)")
    axes.fill_between(steps, [b[0] for b in bounds], [b[1] for b in bounds], color="#1b6ca8", alpha=0.2, lw=0)
    axes.plot(steps, results["cell_by_step"], color="#e07b39", label="cells")
    if results["trained_steps"] <= results["steps"]:
        axes.axvline(results["trained_steps"], color="grey", ls=":", lw=1, label="steps in training")
    axes.set(xlabel="supervision steps", ylabel=f"accuracy ({results['split']} split)", ylim=(0, 1.02))
    axes.set_title(results["run"], parse_math=False)
    axes.xaxis.set_major_locator(matplotlib.ticker.MaxNLocator(integer=True))
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    figure.savefig(path)
    plt.close(figure)


def page(results: Results, picture: bytes) -> str:
    """One HTML page that needs no network: headline, curve, table, and where the numbers come from."""
    rows = "\n".join(
        f"<tr><td>{step}</td><td>{results['exact_by_step'][step - 1]:.1%}</td>"
        f"<td>{results['cell_by_step'][step - 1]:.1%}</td></tr>"
        for step in shown_steps(results)
    )
    facts = "\n".join(
        f"<dt>{html.escape(key)}</dt><dd>{html.escape(str(value))}</dd>"
        for key, value in results.items()
        if not isinstance(value, list | dict)
    )
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(results["run"])}</title>
<style>
:root {{ color-scheme: light dark }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem }}
img {{ max-width: 100%; background: white; border-radius: .5rem }}
table {{ border-collapse: collapse }}
td, th {{ padding: .2rem .8rem; text-align: right; border-bottom: 1px solid #8884 }}
dl {{ display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; font-size: .9rem }}
dd {{ margin: 0; overflow-wrap: anywhere }}
</style></head><body>
<h1>{html.escape(results["run"])}</h1>
<p>{html.escape(headline(results))}</p>
<img alt="accuracy by supervision step" src="data:image/png;base64,{base64.b64encode(picture).decode()}">
<table><tr><th>step</th><th>exact</th><th>cells</th></tr>
{rows}
</table>
<h2>Where these numbers come from</h2>
<dl>
{facts}
</dl>
</body></html>
"""


def write_report(folder: Path, results: Results) -> None:
    """results.json, accuracy_by_step.csv, accuracy_by_step.png and report.html in `folder`."""
    (folder / "results.json").write_text(json.dumps(results, indent=2) + "\n")
    (folder / "accuracy_by_step.csv").write_text(csv_text(results))
    picture = folder / "accuracy_by_step.png"
    plot(results, picture)
    (folder / "report.html").write_text(page(results, picture.read_bytes()), encoding="utf-8")
