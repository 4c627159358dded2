"""Stopping policies: when to stop thinking, calibrated and compared (docs/math.md §17).

Every policy is one rule: stop at the first step whose signal exceeds a threshold, else at step T. Signals are (B,) and
grow with sureness, so a residual is negative.
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
from reason.data import PuzzleData
from reason.evaluation.evaluator import Accuracy, Columns, Consumer, Evaluator, StepColumns
from reason.evaluation.studies.by_step import Signals, scored_mean
from reason.losses.lm import Likelihood, probabilities
from reason.report.chart import Chart, doubling_axis, errorbars, legend, shares_axis
from reason.report.palette import styled
from reason.report.section import Results, Section, Table, cells, interval, share
from reason.rollout import StepRecord
from reason.training.world import World

CANDIDATES = 256  # thresholds tried in a calibration: quantiles of the signal
DROP = 0.005  # share of puzzles that a calibrated policy may lose against all T steps


# Those of `signals`, and q and residual, which are columns of the core's consumer `Signals`.
SIGNALS = ("fixed", "q", "margin", "max-probability", "certainty", "residual", "gate")


def signals(record: StepRecord, likelihood: Likelihood, stays: Tensor | None = None) -> dict[str, Tensor]:
    """What a step tells of every puzzle, (B,) each, means over the scored cells; of labels only the places are read.

    stays: (B, S) ln Π(1 − λ) of an exit gate so far; None: the model has none.
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
    """Stop a puzzle at the first step where `signal` > `threshold`; at the last step, T, in any case."""

    name: str
    signal: str
    threshold: float  # inf: never before T

    def stops(self, seen: Columns) -> np.ndarray:
        """The step (N,), counted from 1, after which every puzzle leaves."""
        over = seen[self.signal] > self.threshold
        over[-1] = True
        return over.argmax(0) + 1


def outcome(seen: Columns, stops: np.ndarray) -> dict[str, Any]:
    """What stopping every puzzle after its step (N,) gives: shares, mean and 95th percentile of steps."""
    at = (stops - 1)[None]

    def there(name: str) -> float | None:
        return float(np.take_along_axis(seen[name], at, axis=0).mean(dtype=np.float64)) if name in seen else None

    return {
        **{name: there(name) for name in ("exact", "valid", "loss")},
        "mean_steps": float(stops.mean()),
        "p95_steps": float(np.quantile(stops, 0.95, method="higher")),
    }


def thresholds(values: np.ndarray) -> list[float]:
    """Thresholds of a signal worth trying, eager first: below every value, quantiles of the values, inf."""
    finite = values[np.isfinite(values)].astype(np.float64)
    if not finite.size:
        return [np.inf]
    quantiles = np.unique(np.quantile(finite, np.linspace(0, 1, CANDIDATES), method="lower"))
    return [float(np.nextafter(np.float32(quantiles[0]), np.float32(-np.inf))), *quantiles.tolist(), np.inf]


def calibrated(seen: Columns, signal: str) -> Policy:
    """The lowest threshold that loses at most DROP of the puzzles; it has the fewest mean steps.

    A higher one stops nobody earlier.
    """
    least = seen["exact"][-1].mean() - DROP - 1e-12
    policies = (Policy(f"{signal}, calibrated", signal, threshold) for threshold in thresholds(seen[signal]))
    return next(policy for policy in policies if outcome(seen, policy.stops(seen))["exact"] >= least)


def policies_for(calibration: Columns, trained_steps: int) -> list[Policy]:
    """All T steps, the trained steps, the halting head as trained, and every signal calibrated."""
    steps = len(calibration["exact"])
    found = [Policy(f"fixed {steps}", "fixed", np.inf)]
    if trained_steps < steps:
        found.append(Policy(f"fixed {trained_steps}", "fixed", trained_steps - 0.5))
    if "q" in calibration:
        found.append(Policy("q > 0, as trained", "q", 0.0))
    return found + [calibrated(calibration, signal) for signal in SIGNALS if signal in calibration]


def frontier(seen: Columns, signal: str) -> list[dict[str, float]]:
    """Mean steps and exact at every threshold worth trying, for the Pareto plot: equal points once, by mean steps."""
    policies = (Policy(signal, signal, threshold) for threshold in thresholds(seen[signal]))
    outcomes = (outcome(seen, policy.stops(seen)) for policy in policies)
    points = {(found["mean_steps"], found["exact"]) for found in outcomes}
    return [{"mean_steps": mean, "exact": exact} for mean, exact in sorted(points)]


class Policies(Consumer):
    """Calibrated on one part of the puzzles and reported on another; (T, N) float32 of each signal."""

    place = 40

    def __init__(self, evaluator: Evaluator):
        super().__init__(evaluator)
        self.steps, self._kept = evaluator.steps, StepColumns(evaluator.steps)
        self._stays: Any = None  # of an exit gate: (B, S) ln Π(1 − λ) so far

    def observe(self, record: StepRecord) -> Columns | None:
        """Keep the signals that the core's `Signals` does not."""
        if (gate := record.readout.gate) is not None:
            self._stays = torch.nn.functional.logsigmoid(-gate.float()) + (0 if record.step == 1 else self._stays)
        self._kept.add(signals(record, self.evaluator.likelihood, self._stays))
        return self._kept.take() if record.step == self.steps else None

    def result(self, seen: Columns) -> dict[str, Any]:
        """What each policy gives."""
        calibration, tested, source = self._calibration(seen)
        rows = [
            policy._asdict() | outcome(tested, policy.stops(tested))
            for policy in policies_for(calibration, self.evaluator.trained_steps)
        ]
        frontiers = {signal: frontier(tested, signal) for signal in SIGNALS if signal in tested}
        puzzles = tested["exact"].shape[1]
        return {"policies": {"calibrated_on": source, "puzzles": puzzles, "rows": rows, "frontiers": frontiers}}

    def _calibration(self, seen: Columns) -> tuple[Columns, Columns, str]:
        """The columns to calibrate on, those to report on, and in words where the first are from."""
        data = self.evaluator.data
        seen = {name: seen[name] for name in ("exact", "valid", "loss", *SIGNALS) if name in seen}
        if data.split != "validation" and "validation" in splits_of(data.directory):
            own = PuzzleData(data.directory, "validation", data.device)
            other = replace(self.evaluator, data=own, world=World())
            with torch.inference_mode():
                found, _ = other.observe([Accuracy(other), Signals(other), Policies(other)])
            return found, seen, f"{len(other.examples)} puzzles of the validation split"
        if seen["exact"].shape[1] == 1:
            return seen, seen, f"the one puzzle of the {data.split} split"
        halves = [{name: values[:, first::2] for name, values in seen.items()} for first in (0, 1)]
        return halves[0], halves[1], f"every other puzzle of the {data.split} split"


COLUMNS = ("policy", "threshold", "exact", "95 % interval", "rules hold", "mean steps", "p95")


def _tables(results: Results) -> list[Table]:
    found = results["policies"]
    rows = [
        [
            *(row["name"], "never" if row["threshold"] is None else f"{row['threshold']:.4g}"),
            *(share(row["exact"]), interval(row["exact"], found["puzzles"])),
            *cells(row, valid=".1%", mean_steps=".2f", p95_steps=".0f"),
        ]
        for row in found["rows"]
    ]
    return [Table(f"stopping policies, calibrated on {found['calibrated_on']}", COLUMNS, rows)]


def _charts(results: Results) -> list[Chart]:
    found = results["policies"]

    def draw(axes: Axes) -> None:
        for index, (signal, points) in enumerate(found["frontiers"].items()):
            mean, exact = [p["mean_steps"] for p in points], [p["exact"] for p in points]
            axes.plot(mean, exact, label=signal, markevery=max(1, len(points) // 6), **styled(index))
            for row in (row for row in found["rows"] if row["signal"] == signal):
                point = {key: styled(index)[key] for key in ("color", "marker")} | {"ms": 6}
                point |= {} if row["name"].endswith("calibrated") else {"mfc": "none"}
                errorbars(axes, [row["mean_steps"]], [row["exact"]], found["puzzles"], **point)
        shares_axis(axes, "exact", whole=False)
        doubling_axis(axes, results["steps"], "mean supervision steps")
        legend(axes)

    says = "; ".join(f"{r['name']}: {share(r['exact'])} after {r['mean_steps']:.1f} steps" for r in found["rows"])
    return [Chart("exact against mean steps", says, draw)]


def _note(results: Results) -> str:
    found = results["policies"]
    return (
        f"Calibrated on {found['calibrated_on']}, reported on {found['puzzles']} puzzles. Lines: every threshold of a "
        "signal; filled points: calibrated, open: as trained or fixed; bars: Wilson's 95 % interval."
    )


POLICIES = Section("policies", "When to stop", _tables, {"policies": _charts}, _note, place=40)
