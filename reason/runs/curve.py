"""The training curve of a run, as its report draws it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from reason.training.log import read_metrics

LINES = 1000  # of a curve; of a longer one every so many
TRAINING, MONITOR = ("loss", "exact", "cell"), ("monitor/exact", "monitor/cell")


def training_curve(run: Path) -> dict[str, list[list[float]]]:
    """{"loss": [[step, value], …], "exact": …, "monitor/exact": …} of metrics.jsonl, finite numbers alone.

    Lines that hold something else are left out: the file decides nothing, and may be cut or edited.
    """
    try:
        lines = read_metrics(run)
    except (OSError, ValueError):
        return {}
    curves: dict[str, list[list[float]]] = {}
    for line in lines:
        if isinstance(line, dict) and _number(line.get("step")):
            for key in (*TRAINING, *MONITOR):
                if _number(line.get(key)):
                    curves.setdefault(key, []).append([line["step"], line[key]])
    return {key: points[:: -(-len(points) // LINES)] for key, points in curves.items()}


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
