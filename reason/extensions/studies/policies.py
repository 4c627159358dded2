"""Stopping policies: calibrates and compares rules for the last step of a puzzle (docs/math.md §17).

Every policy stops at the first step whose signal exceeds a threshold, else at step T. Signals (B,) increase with
confidence, so the residual is negated.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from matplotlib.axes import Axes
from torch import Tensor

from datasets_gen.layout import splits_of
from reason.data.puzzles import PuzzleData
from reason.evaluation.evaluator import Accuracy, Columns, Consumer, Evaluator, StepColumns
from reason.evaluation.studies.by_step import Signals, scored_mean
from reason.losses.lm import Likelihood, probabilities
from reason.report.chart import Chart, legend, log_axis, shares_axis
from reason.report.palette import styled
from reason.report.section import Results, Section, Table, cells, interval, share
from reason.rollout import StepRecord
from reason.training.world import World

CANDIDATES = 256  # thresholds in a calibration: quantiles of the signal
DROP = 0.005  # the share of puzzles that a policy may lose against all T steps
RISE = 0.01  # the share by which a policy may raise the perplexity of text

# Those of `signals`, and q and residual, which are columns of the core's consumer `Signals`.
SIGNALS = ("fixed", "q", "margin", "max-probability", "certainty", "residual", "gate")


def signals(record: StepRecord, likelihood: Likelihood, stays: Tensor | None = None) -> dict[str, Tensor]:
    """Return the signals (B,) of a step, means over the scored cells, without use of labels.

    stays: (B, S) ln Π(1 − λ) of an exit gate so far; None for a model without gate.
    """
    p, top = probabilities(record.logits, likelihood), record.logits.float().topk(2, dim=-1).values
    entropy = -(p * p.clamp(min=torch.finfo(p.dtype).tiny).log()).sum(-1)
    cells = {
        "fixed": torch.full_like(entropy, record.step),  # a policy of a fixed number of steps
        "margin": top[..., 0] - top[..., 1],
        "max-probability": p.amax(-1),
        "certainty": 1 - entropy / math.log(p.shape[-1]),
    }
    cells |= {} if stays is None else {"gate": -stays.expm1()}
    return {name: scored_mean(values, record.batch.labels) for name, values in cells.items()}


class Policy(NamedTuple):
    """Stop a puzzle at the first step at which `signal` > `threshold`; at the last step, T, in any case."""

    name: str
    signal: str
    threshold: float  # inf: never before T

    def stops(self, seen: Columns) -> np.ndarray:
        """Return the last step (N,) of each puzzle, counted from 1."""
        over = seen[self.signal] > self.threshold
        over[-1] = True
        return over.argmax(0) + 1


def outcome(seen: Columns, stops: np.ndarray) -> dict[str, Any]:
    """Return the results of stopping every puzzle after its step (N,): shares, mean and 95th percentile of steps.

    For text, also return the perplexity of a scored token.
    """
    at = (stops - 1)[None]

    def there(name: str) -> float | None:
        return float(np.take_along_axis(seen[name], at, axis=0).mean(dtype=np.float64)) if name in seen else None

    shares = {name: there(name) for name in ("exact", "valid", "loss")}
    if "tokens" in seen:
        nats = np.take_along_axis(seen["loss"], at, axis=0).astype(np.float64)
        shares["perplexity"] = float(np.exp((nats * seen["tokens"]).sum() / seen["tokens"].sum()))
    return {
        **shares,
        "mean_steps": float(stops.mean()),
        "p95_steps": float(np.quantile(stops, 0.95, method="higher")),
    }


def thresholds(values: np.ndarray) -> list[float]:
    """Return thresholds of a signal, earliest stop first: below every value, quantiles of the values, inf."""
    finite = values[np.isfinite(values)].astype(np.float64)
    if not finite.size:
        return [np.inf]
    quantiles = np.unique(np.quantile(finite, np.linspace(0, 1, CANDIDATES), method="lower"))
    return [float(np.nextafter(np.float32(quantiles[0]), np.float32(-np.inf))), *quantiles.tolist(), np.inf]


def calibrated(seen: Columns, signal: str, budget: float | None = None) -> Policy:
    """Return the lowest threshold that loses at most the budget; higher thresholds do not stop earlier.

    budget: share of puzzles that are exact after all T steps and may be lost; for text, the relative increase of
    perplexity (the blind-spot paper: 0.01).
    """
    key = "perplexity" if "tokens" in seen else "exact"
    best = outcome(seen, np.full(seen["exact"].shape[1], len(seen["exact"])))[key]
    if key == "exact":
        least, sign = best - (DROP if budget is None else budget) - 1e-12, 1
    else:
        least, sign = -best * (1 + (RISE if budget is None else budget)) - 1e-12, -1
    policies = (Policy(f"{signal}, calibrated", signal, threshold) for threshold in thresholds(seen[signal]))
    fit = (policy for policy in policies if sign * outcome(seen, policy.stops(seen))[key] >= least)
    return next(fit, Policy(f"{signal}, calibrated", signal, np.inf))  # none fits a loss of nan


def policies_for(calibration: Columns, trained_steps: int, budget: float | None = None) -> list[Policy]:
    """Return all T steps, the trained steps, the halting head as trained, and every signal calibrated."""
    steps = len(calibration["exact"])
    policies = [Policy(f"fixed {steps}", "fixed", np.inf)]
    if trained_steps < steps:
        policies.append(Policy(f"fixed {trained_steps}", "fixed", trained_steps - 0.5))
    if "q" in calibration:
        policies.append(Policy("q > 0, as trained", "q", 0.0))
    return policies + [calibrated(calibration, signal, budget) for signal in SIGNALS if signal in calibration]


def frontier(seen: Columns, signal: str) -> list[dict[str, float]]:
    """Return mean steps and exact (for text, perplexity) at every useful threshold, sorted, without duplicates."""
    key = "perplexity" if "tokens" in seen else "exact"
    policies = (Policy(signal, signal, threshold) for threshold in thresholds(seen[signal]))
    outcomes = (outcome(seen, policy.stops(seen)) for policy in policies)
    points = {(each["mean_steps"], each[key]) for each in outcomes}
    return [{"mean_steps": mean, key: value} for mean, value in sorted(points)]


class Policies(Consumer):
    """Calibrates policies on one part of the puzzles and reports them on another; keeps each signal, (T, N) float32."""

    order = 40

    def __init__(self, evaluator: Evaluator):
        super().__init__(evaluator)
        self._kept = StepColumns(self.steps)
        self._stays: Any = None  # of an exit gate: (B, S) ln Π(1 − λ) so far

    def observe(self, record: StepRecord) -> Columns | None:
        """Store the signals that the core's `Signals` does not have."""
        if (gate := record.readout.gate) is not None:
            self._stays = torch.nn.functional.logsigmoid(-gate.float()) + (0 if record.step == 1 else self._stays)
        self._kept.add(signals(record, self.evaluator.likelihood, self._stays))
        return self._kept.take() if record.step == self.steps else None

    def result(self, seen: Columns) -> dict[str, Any]:
        """Return a row of results for each policy, and the frontier of each signal."""
        calibration, tested, source = self._calibration(seen)
        given = self.evaluator.settings.asked["policies"]
        budget = float(given) if given else None
        rows = [
            policy._asdict() | outcome(tested, policy.stops(tested))
            for policy in policies_for(calibration, self.evaluator.trained_steps, budget)
        ]
        frontiers = {signal: frontier(tested, signal) for signal in SIGNALS if signal in tested}
        puzzles = tested["exact"].shape[1]
        return {"policies": {"calibrated_on": source, "puzzles": puzzles, "rows": rows, "frontiers": frontiers}}

    def _calibration(self, seen: Columns) -> tuple[Columns, Columns, str]:
        """Return the columns for calibration, those for the report, and a text with the source of the first."""
        data = self.evaluator.data
        text = hasattr(self.evaluator.puzzle, "bytes_of")

        def read(columns: Columns) -> dict[str, np.ndarray]:
            kept = {name: columns[name] for name in ("exact", "valid", "loss", *SIGNALS) if name in columns}
            return kept | ({"tokens": columns["scored"]} if text else {})

        seen = read(seen)
        if data.split != "validation" and "validation" in splits_of(data.directory):
            validation = PuzzleData(data.directory, "validation", data.device)
            other = replace(self.evaluator, data=validation, world=World(), step=None)  # a graph has one batch size
            with torch.inference_mode():
                seen_there, _ = other.observe([Accuracy(other), Signals(other), Policies(other)])
            return read(seen_there), seen, f"{len(other.examples)} puzzles of the validation split"
        if seen["exact"].shape[1] == 1:
            return seen, seen, f"the one puzzle of the {data.split} split"
        halves = [{name: values[:, first::2] for name, values in seen.items()} for first in (0, 1)]
        return halves[0], halves[1], f"every other puzzle of the {data.split} split"


def _tables(results: Results) -> list[Table]:
    policies = results["policies"]
    text = "perplexity" in policies["rows"][0]
    rows = []
    for row in policies["rows"]:
        figures = (
            cells(row, perplexity=".4g")
            if text
            else [share(row["exact"]), interval(row["exact"], policies["puzzles"]), share(row["valid"])]
        )
        threshold = "never" if row["threshold"] is None else f"{row['threshold']:.4g}"
        rows.append([row["name"], threshold, *figures, *cells(row, mean_steps=".2f", p95_steps=".0f")])
    measured = ("perplexity",) if text else ("exact", "95 % interval", "rules hold")
    columns = ("policy", "threshold", *measured, "mean steps", "p95")
    return [Table(f"stopping policies, calibrated on {policies['calibrated_on']}", columns, rows)]


def _charts(results: Results) -> list[Chart]:
    policies = results["policies"]
    key = "perplexity" if "perplexity" in policies["rows"][0] else "exact"

    def draw(axes: Axes) -> None:
        for index, (signal, points) in enumerate(policies["frontiers"].items()):
            mean, values = [p["mean_steps"] for p in points], [p[key] for p in points]
            axes.plot(mean, values, label=signal, markevery=max(1, len(points) // 6), **styled(index))
            for row in (row for row in policies["rows"] if row["signal"] == signal):
                style = {name: styled(index)[name] for name in ("color", "marker")} | {"ms": 6}
                style |= {} if row["name"].endswith("calibrated") else {"mfc": "none"}
                axes.plot([row["mean_steps"]], [row[key]], **style)
        if key == "exact":
            shares_axis(axes, key, whole=False)
        axes.set(xlabel="mean supervision steps", ylabel=key)
        log_axis(axes, "x")
        legend(axes)

    form = ".1%" if key == "exact" else ".4g"
    alt_text = "; ".join(f"{r['name']}: {r[key]:{form}} after {r['mean_steps']:.1f} steps" for r in policies["rows"])
    return [Chart(f"{key} against mean steps", alt_text, draw)]


def _note(results: Results) -> str:
    policies = results["policies"]
    return (
        f"Calibrated on {policies['calibrated_on']}, reported on {policies['puzzles']} puzzles. Lines: thresholds of "
        "a signal; filled points: calibrated, open: as trained or fixed."
    )


POLICIES = Section("policies", "Stopping policies", _tables, {"policies": _charts}, _note, order=40)
