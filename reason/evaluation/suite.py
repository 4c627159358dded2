"""All parts of an evaluation: consumers, sections of the report, and the files of both."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from reason.evaluation.evaluator import Accuracy, Consumer, Evaluator
from reason.evaluation.studies.boards import Boards
from reason.evaluation.studies.by_step import BY_STEP, Rules, Signals
from reason.evaluation.studies.training import TRAINING
from reason.plugins import load_parts
from reason.report.chart import save_png
from reason.report.page import page
from reason.report.section import Results, Section, view

CONSUMERS: dict[type[Consumer], Callable[[Evaluator], object]] = {  # each with the condition under which it acts
    Accuracy: lambda _: True,
    Rules: lambda _: True,
    Signals: lambda _: True,
    Boards: lambda evaluator: evaluator.puzzle and evaluator.puzzle.characters,  # only tokens that can be drawn
}
SECTIONS = [BY_STEP, TRAINING]  # the page shows them by their `order`
FILES = ["boards"]  # not in results.json, but in NAME.json; training is in metrics.jsonl
load_parts("report")


def consumers_of(evaluator: Evaluator) -> list[Consumer]:
    """Return the consumers that the settings select. Raises ConfigError if model or set does not allow one."""
    ordered = sorted(CONSUMERS.items(), key=lambda entry: entry[0].order)
    return [consumer(evaluator) for consumer, wanted in ordered if wanted(evaluator)]


def sections_of(results: Results) -> list[Section]:
    """Return the sections that the results have numbers for, in the order of the page."""
    return sorted((section for section in SECTIONS if results.get(section.key)), key=lambda section: section.order)


def write_report(folder: Path, results: Results) -> None:
    """Write results.json, boards.json, accuracy_by_step.csv, every section's PNGs, and report.html to `folder`."""
    numbers = {key: value for key, value in results.items() if key not in (*FILES, "training")}
    (folder / "results.json").write_text(json.dumps(numbers, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    for name in filter(results.get, FILES):
        (folder / f"{name}.json").write_text(json.dumps(results[name], allow_nan=False) + "\n", encoding="utf-8")
    by_step = {key: values for key, values in results.items() if key.endswith("_by_step") and values}
    header = ["step", *(key.removesuffix("_by_step") for key in by_step)]
    lines = zip(range(1, results["steps"] + 1), *by_step.values(), strict=True)
    with (folder / "accuracy_by_step.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *lines])
    sections = sections_of(results)
    drawn = ((name, charts_of(results)) for section in sections for name, charts_of in section.charts.items())
    plots = {name: charts for name, charts in drawn if charts}
    for name, charts in plots.items():
        save_png(charts, folder / f"{name}.png")
    (folder / "report.html").write_text(page(results, sections, plots), encoding="utf-8")


def print_results(results: Results, console: Console) -> None:
    """Print the tables of every section that the results have numbers for."""
    for section in sections_of(results):
        for table in section.tables(results):
            console.print(view(table))
