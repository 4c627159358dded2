"""results.json → tables, CSV, plots and one self-contained page. Reads results, never models."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

from reason.report.chart import save_png
from reason.report.page import Drawing, drawn, page
from reason.report.section import wilson_interval
from reason.report.sections import sections_of
from reason.report.terminal import headline, print_results

__all__ = ["headline", "print_results", "wilson_interval", "write_report"]

ELSEWHERE = ("boards", "training")  # boards.json; metrics.jsonl


def write_report(folder: Path, results: Mapping[str, Any]) -> None:
    """results.json, boards.json, the CSVs and PNGs of every section that `results` has, and report.html in `folder`."""
    numbers = {key: value for key, value in results.items() if key not in ELSEWHERE}
    (folder / "results.json").write_text(json.dumps(numbers, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    if results.get("boards"):
        (folder / "boards.json").write_text(json.dumps(results["boards"], allow_nan=False) + "\n", encoding="utf-8")
    drawings: dict[str, list[Drawing]] = {}
    for section in sections_of(results):
        for name, records in section.records.items():
            (folder / f"{name}.csv").write_text(_csv(records(results)), encoding="utf-8")
        for name, charts_of in section.charts.items():
            if charts := charts_of(results):
                save_png(charts, folder / f"{name}.png")
                drawings[name] = drawn(charts, name)
    (folder / "report.html").write_text(page(results, drawings), encoding="utf-8")


def _csv(records: Sequence[Mapping[str, Any]]) -> str:
    out = StringIO()
    writer = csv.DictWriter(out, list(records[0]) if records else [], lineterminator="\n")
    writer.writeheader()
    for record in records:
        writer.writerow({key: f"{value:.6g}" if isinstance(value, float) else value for key, value in record.items()})
    return out.getvalue()
