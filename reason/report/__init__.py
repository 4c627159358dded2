"""results.json → tables, CSV, plots and one self-contained page. Reads results, never models."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reason.report.page import page
from reason.report.plots import plots_of, save_png, svg
from reason.report.tables import csv_files, headline, print_tables, shown_steps, table, wilson_interval

__all__ = ["headline", "print_tables", "shown_steps", "table", "wilson_interval", "write_report"]


def write_report(folder: Path, results: Mapping[str, Any]) -> None:
    """results.json, boards.json, a CSV and a PNG for every section that `results` has, and report.html in `folder`."""
    told = {key: value for key, value in results.items() if key != "boards"}
    (folder / "results.json").write_text(json.dumps(told, indent=2, allow_nan=False) + "\n")
    if results.get("boards"):
        (folder / "boards.json").write_text(json.dumps(results["boards"], allow_nan=False) + "\n")
    for name, text in csv_files(results).items():
        (folder / f"{name}.csv").write_text(text)
    drawings = {}
    for name, plot in plots_of(results).items():
        save_png(plot, results, folder / f"{name}.png")
        drawings[name] = svg(plot, results, name)
    (folder / "report.html").write_text(page(results, drawings), encoding="utf-8")
