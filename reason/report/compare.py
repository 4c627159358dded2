"""Several evaluations in one table and plot."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from io import StringIO
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from reason.report.figure import COLOURS, save_png, svg
from reason.report.page import comparison_page
from reason.report.section import Results, interval, share, wilson_interval

COLUMNS = (
    "run", "preset", "parameters", "optimizer steps", "exact at step 1", "at the trained step", "95 % interval",
    "at the last step", "rules hold", "puzzles", "set", "steps",
)  # fmt: skip


def comparison_rows(evaluations: Sequence[Results]) -> list[list[str]]:
    """A row for every evaluation."""
    rows = []
    for results in evaluations:
        trained, exact = min(results["trained_steps"], results["steps"]), results["exact_by_step"]
        rows.append(
            [
                results["run"],
                results["preset"],
                f"{results['parameters']:,}",
                f"{results['checkpoint_step']:,}",
                share(exact[0]),
                f"{share(exact[trained - 1])} ({trained})",
                interval(exact[trained - 1], results["puzzles"]),
                f"{share(exact[-1])} ({results['steps']})",
                share(results["valid_by_step"][-1] if results.get("valid_by_step") else None),
                str(results["puzzles"]),
                f"{Path(results['dataset']).name} {results['split']}",
                str(results["steps"]),
            ]
        )
    return rows


def notes_on(evaluations: Sequence[Results]) -> list[str]:
    """What stands between these figures and a fair comparison."""
    notes = []
    for key, what in (("dataset", "sets"), ("split", "splits"), ("puzzles", "numbers of puzzles")):
        seen = sorted({str(results[key]) for results in evaluations})
        if len(seen) > 1:
            notes.append(f"different {what}: {', '.join(seen)}; read their figures with that label")
    return notes


def _csv(evaluations: Sequence[Results]) -> str:
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["run", "preset", "parameters", "puzzles", "step", "exact", "exact_low", "exact_high", "cell"])
    for results in evaluations:
        for index, exact in enumerate(results["exact_by_step"]):
            low, high = wilson_interval(exact, results["puzzles"])
            writer.writerow(
                [results["run"], results["preset"], results["parameters"], results["puzzles"], index + 1]
                + [f"{value:.6g}" for value in (exact, low, high, results["cell_by_step"][index])]
            )
    return out.getvalue()


def _plot(figure: Figure, together: Results) -> None:
    """Exact by step, a line with its interval for every run."""
    axes = figure.subplots()
    for index, results in enumerate(together["evaluations"]):
        colour, style = COLOURS[index % len(COLOURS)], ("-", "--", ":")[index // len(COLOURS) % 3]
        steps, exact = range(1, results["steps"] + 1), results["exact_by_step"]
        bounds = [wilson_interval(value, results["puzzles"]) for value in exact]
        axes.plot(steps, exact, style, marker="o", ms=3, color=colour, label=results["run"].replace("$", r"\$"))
        axes.fill_between(steps, [b[0] for b in bounds], [b[1] for b in bounds], color=colour, alpha=0.15, lw=0)
        if results["trained_steps"] <= results["steps"]:
            trained = results["trained_steps"]
            axes.plot(trained, exact[trained - 1], "o", ms=7, mfc="none", color=colour)
    axes.set(xlabel="supervision steps (circle: those of training)", ylabel="exact", ylim=(-0.02, 1.02))
    axes.xaxis.set_major_locator(matplotlib.ticker.MaxNLocator(integer=True))
    axes.grid(alpha=0.25)
    axes.legend(fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))


def write_comparison(folder: Path, evaluations: Sequence[Results]) -> None:
    """comparison.json, .csv, .png and .html in `folder`."""
    title = f"{len(evaluations)} runs compared"
    together = {"evaluations": list(evaluations)}
    (folder / "comparison.json").write_text(json.dumps(together, indent=2) + "\n")
    (folder / "comparison.csv").write_text(_csv(evaluations))
    save_png(_plot, together, folder / "comparison.png")
    drawing = svg(_plot, together, "comparison")
    page = comparison_page(title, COLUMNS, comparison_rows(evaluations), drawing, notes_on(evaluations))
    (folder / "comparison.html").write_text(page, encoding="utf-8")
