"""Files of evaluations and trainings: results.json (untrusted) and the training curve."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from reason.config.overrides import leaves
from reason.errors import ConfigError, first_fault, printable
from reason.files import read_json
from reason.pretrained import FOLDER, pretrained_models
from reason.report.measures import MEASURES
from reason.training.log import read_metrics

LINES = 1000  # of a curve; a longer one is thinned out
TRAINING, MONITOR = ("loss", "exact", "cell"), ("monitor/exact", "monitor/cell")
Text = Annotated[str, AfterValidator(printable)]
Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0, lt=2**63)]
Positive = Annotated[int, Field(ge=1, lt=2**63)]


class Compared(BaseModel):
    """The fields of an evaluation that are compared with those of others; the rest is ignored."""

    model_config = ConfigDict(extra="ignore", strict=True, allow_inf_nan=False)

    run: Text
    preset: Text
    dataset: Text
    split: Text
    steps: Positive
    trained_steps: Positive
    checkpoint_step: Count
    parameters: Count
    puzzles: Positive
    exact_by_step: list[Share]
    cell_by_step: list[Share]
    valid_by_step: list[Share] | None = None
    weights: Text | None = None
    precision: Text | None = None
    fingerprint: Text | None = None  # of the puzzles
    settings: dict[str, Any] = {}  # that the evaluation changed

    @model_validator(mode="after")
    def _a_share_a_step(self) -> Compared:
        for name in ("exact_by_step", "cell_by_step", "valid_by_step"):
            shares = getattr(self, name)
            if shares is not None and len(shares) != self.steps:
                raise ValueError(f"{name} has {len(shares)} shares for {self.steps} steps")
        return self


def compared(results: Any) -> dict[str, Any]:
    """Return these fields of a results.json, texts on one line. Raises ConfigError if one is missing or wrong."""
    try:
        read = Compared.model_validate(results)
    except ValidationError as error:
        where, what, _ = first_fault(error)
        raise ConfigError(f"{where}: {what}" if where else what) from None
    measured = {key: results[key] for key in MEASURES if isinstance(results.get(key), list)}
    for key, values in measured.items():
        if len(values) != read.steps or not all(value is None or is_number(value) for value in values):
            raise ConfigError(f"{key}: {read.steps} numbers are needed")
    return read.model_dump() | measured


def settings_of(run: Path, results: dict[str, Any]) -> dict[str, Any]:
    """Return an evaluation's {"section.key": value}: the run's config.json, overridden by the evaluation's changes.

    A model of the package has its config there. Empty without a valid config, since the file is untrusted.
    """
    if not (run / "config.json").exists() and run.name in pretrained_models():
        run = FOLDER / run.name
    try:
        settings = leaves(read_json(run / "config.json")["config"])
    except (OSError, ConfigError, KeyError, TypeError, AttributeError):
        return {}
    return settings | results["settings"]


def training_curve(run: Path) -> dict[str, list[list[float]]]:
    """Return {"loss": [[step, value], …], "exact": …, "monitor/exact": …} of metrics.jsonl, only finite numbers."""
    curves: dict[str, list[list[float]]] = {}
    for line in read_metrics(run):
        if is_number(line["step"]):
            for key in (*TRAINING, *MONITOR):
                if is_number(line.get(key)):
                    curves.setdefault(key, []).append([line["step"], line[key]])
    return {key: points[:: -len(points) // LINES][::-1] for key, points in curves.items()}  # keeps the last


def is_number(value: Any) -> bool:
    """Return whether it is a finite number in the range of a float."""
    return isinstance(value, int | float) and abs(value) <= sys.float_info.max
