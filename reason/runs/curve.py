"""The training curve of a run, as its report draws it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from reason.errors import ConfigError
from reason.training.log import read_metrics

LINES = 1000  # of a curve; of a longer one every so many
TRAINING, MONITOR = ("loss", "exact", "cell"), ("monitor/exact", "monitor/cell")


def training_curve(run: Path) -> dict[str, list[list[float]]]:
    """{"loss": [[step, value], …], "exact": …, "monitor/exact": …} of metrics.jsonl, finite numbers alone."""
    try:
        lines = read_metrics(run)
    except (OSError, ConfigError):
        return {}
    curves: dict[str, list[list[float]]] = {}
    for line in lines:
        if is_number(line["step"]):
            for key in (*TRAINING, *MONITOR):
                if is_number(line.get(key)):
                    curves.setdefault(key, []).append([line["step"], line[key]])
    return {key: points[:: -(-len(points) // LINES)] for key, points in curves.items()}


def is_number(value: Any) -> bool:
    """Whether it is a finite number, of a size that a float has."""
    return isinstance(value, int | float) and abs(value) <= sys.float_info.max
