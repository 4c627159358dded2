"""Stopping policies: when to stop thinking, calibrated, compared and timed (docs/math.md §17).

Every policy is one rule: stop at the first step whose signal exceeds a threshold, else at step T. Signals grow with
sureness, so a fixed number of steps is a policy on the signal m, and a residual is negative.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from torch import Tensor

from datasets_gen.layout import splits_of
from datasets_gen.progress import Progress
from reason.data import PuzzleData
from reason.evaluation.evaluator import Accuracy, Columns, Consumer, Evaluator, StepColumns
from reason.evaluation.states import rows_of
from reason.evaluation.studies.by_step import Signals
from reason.extensions.studies.signals import OF_THE_PASS, SIGNALS, Past, Reading
from reason.report.chart import Chart, doubling_axis, errorbars, legend, shares_axis
from reason.report.palette import styled
from reason.report.section import Results, Section, Table, cells, interval, share
from reason.rollout import StepRecord
from reason.training.world import World

FIXED = "fixed"
CANDIDATES = 256  # thresholds tried in a calibration: quantiles of the signal
DROP = 0.005  # share of puzzles that a calibrated policy may lose against all T steps


@dataclass(frozen=True)
class Policy:
    """Stop a puzzle at the first step where `signal` > `threshold`; at the last step, T, in any case."""

    name: str
    signal: str
    threshold: float  # inf: never before T

    def stops(self, seen: Columns) -> np.ndarray:
        """The step (N,), counted from 1, after which every puzzle leaves."""
        over = signal_of(seen, self.signal) > self.threshold
        over[-1] = True
        return over.argmax(0) + 1


def outcomes_of(seen: Columns, rows: np.ndarray | slice = slice(None)) -> dict[str, np.ndarray]:
    """The columns that policies look at, of some puzzles: `exact`, `valid` where rules decide, `loss`, the signals."""
    return {name: seen[name][:, rows] for name in ("exact", "valid", "loss", *SIGNALS) if name in seen}


def signals_in(seen: Columns) -> list[str]:
    """The step itself, and what else the model says."""
    return [FIXED, *(name for name in SIGNALS if name in seen)]


def signal_of(seen: Columns, name: str) -> np.ndarray:
    """(T, N) of a signal; of "fixed" the step itself."""
    if name == FIXED:
        steps, puzzles = seen["exact"].shape
        return np.broadcast_to(np.arange(1.0, steps + 1)[:, None], (steps, puzzles))
    return seen[name]


def outcome(seen: Columns, stops: np.ndarray) -> dict[str, Any]:
    """What stopping every puzzle after its step (N,) gives: shares, mean and 95th percentile of steps."""
    at = (stops - 1)[None]

    def there(values: np.ndarray) -> float:
        return float(np.take_along_axis(values, at, axis=0).mean(dtype=np.float64))

    return {
        "exact": there(seen["exact"]),
        "valid": there(seen["valid"]) if "valid" in seen else None,
        "loss": there(seen["loss"]),
        "mean_steps": float(stops.mean()),
        "p95_steps": float(np.quantile(stops, 0.95, method="higher")),
    }


def thresholds(seen: Columns, signal: str) -> list[float]:
    """Thresholds worth trying, eager first: below every value, quantiles of the values, inf."""
    values = signal_of(seen, signal)
    finite = values[np.isfinite(values)].astype(np.float64)
    if not finite.size:
        return [np.inf]
    if signal == FIXED:
        return [*(np.arange(len(values)) + 0.5), np.inf]
    quantiles = np.unique(np.quantile(finite, np.linspace(0, 1, CANDIDATES), method="lower"))
    return [float(np.nextafter(np.float32(quantiles[0]), np.float32(-np.inf))), *quantiles.tolist(), np.inf]


def calibrated(seen: Columns, signal: str) -> Policy:
    """The lowest threshold that loses at most DROP of the puzzles; it has the fewest mean steps.

    A higher one stops nobody earlier.
    """
    steps, puzzles = seen["exact"].shape
    least = outcome(seen, np.full(puzzles, steps))["exact"] - DROP - 1e-12
    policies = (Policy(f"{signal}, calibrated", signal, threshold) for threshold in thresholds(seen, signal))
    return next(policy for policy in policies if outcome(seen, policy.stops(seen))["exact"] >= least)


def policies_for(calibration: Columns, trained_steps: int) -> list[Policy]:
    """All T steps, the trained steps, the halting head as trained, and every signal calibrated."""
    steps = len(calibration["exact"])
    found = [Policy(f"fixed {steps}", FIXED, np.inf)]
    if trained_steps < steps:
        found.append(Policy(f"fixed {trained_steps}", FIXED, trained_steps - 0.5))
    if "q" in calibration:
        found.append(Policy("q > 0, as trained", "q", 0.0))
    return found + [calibrated(calibration, signal) for signal in signals_in(calibration)]


def frontier(seen: Columns, signal: str) -> list[dict[str, float]]:
    """Mean steps and exact at every threshold worth trying, for the Pareto plot: equal points once, by mean steps."""
    points = set()
    for threshold in thresholds(seen, signal):
        found = outcome(seen, Policy(signal, signal, threshold).stops(seen))
        points.add((found["mean_steps"], found["exact"]))
    return [{"mean_steps": mean, "exact": exact} for mean, exact in sorted(points)]


class Policies(Consumer):
    """Calibrated on one part of the puzzles, reported on another, and timed; (T, N) float32 of each signal."""

    place = 40

    def __init__(self, evaluator: Evaluator):
        super().__init__(evaluator)
        self.steps, self._kept, self._past = evaluator.steps, StepColumns(evaluator.steps), Past()
        data, self._other = evaluator.data, None
        if data.split != "validation" and "validation" in splits_of(data.directory):
            other = PuzzleData(data.directory, "validation", data.device)
            self._other = other if len(other) else None
        heads = evaluator.heads
        policies = 3 + len(SIGNALS) + (1 if heads.q_halt is not None else -1)
        halves = len(evaluator.examples) // (1 if self._other else 2)
        self.cost = f"policies: up to {policies} passes over {max(halves, 1):,} puzzles, each for a policy's seconds"

    _other: PuzzleData | None

    def observe(self, record: StepRecord) -> Columns | None:
        """Keep the signals that the core's `Signals` does not."""
        self._past = Past() if record.step == 1 else self._past
        step = Reading(record, self.evaluator.likelihood, self.evaluator.halting, self._past)
        found = {name: signal(step) for name, signal in SIGNALS.items() if name not in OF_THE_PASS}
        self._kept.add({name: value for name, value in found.items() if value is not None})
        return self._kept.take() if record.step == self.steps else None

    def result(self, seen: Columns) -> dict[str, Any]:
        """What each policy gives by the record, and by the clock against leaving nobody out."""
        evaluator = self.evaluator
        calibration, tested, source = self._calibration(seen)
        seen = outcomes_of(seen, tested)
        examples = evaluator.examples[torch.from_numpy(tested).to(evaluator.examples.device)]
        rows: list[dict[str, Any]] = []
        for policy in policies_for(calibration, evaluator.trained_steps):
            exact, taken, seconds = run_with(policy, evaluator, examples)
            finite = np.isfinite(policy.threshold)
            rows.append(
                {"name": policy.name, "signal": policy.signal, "threshold": policy.threshold if finite else None}
                | outcome(seen, policy.stops(seen))
                | {"live_exact": float(exact.mean()), "live_mean_steps": float(taken.mean()), "seconds": seconds}
            )
        for row in rows:
            row["speedup"] = rows[0]["seconds"] / row["seconds"]
        return {
            "policies": {
                "calibrated_on": source,
                "puzzles": len(tested),
                "rows": rows,
                "frontiers": {signal: frontier(seen, signal) for signal in signals_in(seen)},
            }
        }

    def _calibration(self, seen: Columns) -> tuple[Columns, np.ndarray, str]:
        """The columns to calibrate on, the puzzles to report on, and in words where the first are from."""
        own, everyone = self.evaluator.data.split, np.arange(seen["exact"].shape[1])
        if self._other is not None:
            other = replace(self.evaluator, data=self._other, world=World())
            with torch.inference_mode():
                found, _ = other.observe([Accuracy(other), Signals(other), Policies(other)])
            return found, everyone, f"{len(other.examples)} puzzles of the {self._other.split} split"
        if len(everyone) == 1:
            return seen, everyone, f"the one puzzle of the {own} split"
        return outcomes_of(seen, slice(None, None, 2)), everyone[1::2], f"every other puzzle of the {own} split"


@torch.inference_mode()
def run_with(policy: Policy, evaluator: Evaluator, examples: Tensor) -> tuple[np.ndarray, np.ndarray, float]:
    """Examples (N,) of the split under a policy: exact (N,) bool, the steps taken (N,), the seconds of all.

    A puzzle that is done leaves its batch. One wait for the device a step: who leaves?
    """
    model, data, steps = evaluator.model.eval(), evaluator.data, evaluator.steps
    exact, taken = np.zeros(len(examples), bool), np.zeros(len(examples), np.int64)
    started = time.perf_counter()
    for first in Progress(
        range(0, len(examples), evaluator.settings.batch_size), desc=policy.name, disable=not evaluator.progress
    ):
        rows = examples[first : first + evaluator.settings.batch_size]
        places, batch = np.arange(first, first + len(rows)), data.take(rows)
        context, past = model.encode(batch), Past()
        state, start = model.initial_state(context), evaluator.start(rows)
        state = state if start is None else start(state)
        for step in range(1, steps + 1):
            before, state = state, model.step(state, context)
            record = StepRecord(model, step, batch, context, before, state, rows, evaluator.rules)
            signal = _signal(policy.signal, Reading(record, evaluator.likelihood, evaluator.halting, past))
            stays = ~(signal > policy.threshold)
            going = stays.cpu().numpy() & (step < steps)
            if going.all():
                continue
            exact[places[~going]], taken[places[~going]] = record.exact.cpu().numpy()[~going], step
            if not going.any():
                break
            kept = stays.nonzero().flatten()
            places, state, batch = places[going], rows_of(state, kept), data.take(rows := rows[kept])
            context, past = model.encode(batch), {name: value[kept] for name, value in past.items()}
    return exact, taken, time.perf_counter() - started


def _signal(name: str, step: Reading) -> Tensor:
    """(B,) of a signal after a step; of "fixed" the step itself."""
    record = step.record
    if name == FIXED:
        return torch.full((len(record.answer),), float(record.step), device=record.answer.device)
    signal = SIGNALS[name](step)
    assert signal is not None, "a policy is on a signal that the model has"
    return signal


COLUMNS = ("policy", "threshold", "exact", "95 % interval", "rules hold", "mean steps", "p95", "speedup")


def _tables(results: Results) -> list[Table]:
    found = results["policies"]
    rows = [
        [
            *(row["name"], "never" if row["threshold"] is None else f"{row['threshold']:.4g}"),
            *(share(row["exact"]), interval(row["exact"], found["puzzles"])),
            *cells(row, valid=".1%", mean_steps=".2f", p95_steps=".0f"),
            f"{row['speedup']:.2f}×",
        ]
        for row in found["rows"]
    ]
    return [Table(f"stopping policies, calibrated on {found['calibrated_on']}", COLUMNS, rows)]


def _charts(results: Results) -> list[Chart]:
    found = results["policies"]
    rows = {signal: [row for row in found["rows"] if row["signal"] == signal] for signal in found["frontiers"]}

    def draw(axes: Axes) -> None:
        for index, (signal, points) in enumerate(found["frontiers"].items()):
            colour, mark = styled(index)["color"], styled(index)["marker"]
            mean, exact = [p["mean_steps"] for p in points], [p["exact"] for p in points]
            axes.plot(mean, exact, label=signal, markevery=max(1, len(points) // 6), **styled(index))
            for row in rows[signal]:
                filled = {} if row["name"].endswith("calibrated") else {"mfc": "none"}
                at = {"color": colour, "marker": mark, "ms": 6, **filled}
                errorbars(axes, [row["mean_steps"]], [row["exact"]], found["puzzles"], **at)
        shares_axis(axes, "exact", whole=False)
        doubling_axis(axes, results["steps"], "mean supervision steps")
        legend(axes)

    says = "; ".join(f"{r['name']}: {share(r['exact'])} after {r['mean_steps']:.1f} steps" for r in found["rows"])
    return [Chart("exact against mean steps", says, draw)]


def _note(results: Results) -> str:
    found = results["policies"]
    return (
        f"Calibrated on {found['calibrated_on']}, reported on {found['puzzles']} puzzles. Speedup: seconds of all "
        "steps over seconds with finished puzzles leaving the batch. Lines: every threshold of a signal; filled "
        "points: calibrated, open: as trained or fixed; bars: Wilson's 95 % interval."
    )


POLICIES = Section("policies", "When to stop", _tables, {"policies": _charts}, _note, place=40)
