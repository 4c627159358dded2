"""Stopping policies: a signal and the threshold that it must exceed (docs/math.md §17).

Every policy is one rule, "stop at the first step whose signal exceeds the threshold, else at T", on signals that grow
with sureness; so the fixed policy is the signal m, and a residual is negative. A model that says more (an exit gate)
adds a signal, nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from reason.evaluation.accuracy import Record

FIXED = "fixed"
CANDIDATES = 256  # thresholds tried in a calibration: quantiles of the signal
Budget = Literal["exact", "perplexity"]


@dataclass(frozen=True)
class Policy:
    """Stop a puzzle at the first step where `signal` > `threshold`; at the last step, T, in any case."""

    name: str
    signal: str
    threshold: float  # inf: never before T

    def stops(self, record: Record) -> np.ndarray:
        """The step (N,), counted from 1, after which every puzzle of a record leaves."""
        over = signal_of(record, self.signal) > self.threshold
        over[-1] = True
        return over.argmax(0) + 1


@dataclass(frozen=True)
class Allowance:
    """What a policy may cost against running all T steps, and by which measure."""

    budget: Budget = "exact"
    drop: float = 0.005  # share of puzzles exact
    perplexity: float = 1.01  # factor

    def met(self, outcome: dict[str, Any], full: dict[str, Any]) -> bool:
        """Is `outcome` within the allowance of `full`?"""
        if self.budget == "exact":
            return full["exact"] - outcome["exact"] <= self.drop + 1e-12
        return outcome["loss"] - full["loss"] <= np.log(self.perplexity)


def signal_of(record: Record, name: str) -> np.ndarray:
    """(T, N) of a signal; of "fixed" the step itself."""
    if name == FIXED:
        return np.broadcast_to(np.arange(1.0, record.steps + 1)[:, None], record.exact.shape)
    return record.signals[name]


def outcome(record: Record, stops: np.ndarray) -> dict[str, Any]:
    """What stopping every puzzle after its step (N,) gives: shares, mean and 95th percentile of steps."""
    at = (stops - 1)[None]

    def there(values: np.ndarray) -> float:
        return float(np.take_along_axis(values, at, axis=0).mean(dtype=np.float64))

    return {
        "exact": there(record.exact),
        "valid": None if record.valid is None else there(record.valid),
        "loss": there(record.loss),
        "mean_steps": float(stops.mean()),
        "p95_steps": float(np.quantile(stops, 0.95, method="higher")),
    }


def thresholds(record: Record, signal: str) -> list[float]:
    """Thresholds worth trying, eager first: below every value, quantiles of the values, inf."""
    values = signal_of(record, signal)
    finite = values[np.isfinite(values)].astype(np.float64)
    if not finite.size:
        return [np.inf]
    if signal == FIXED:
        return [*(np.arange(record.steps) + 0.5), np.inf]
    quantiles = np.unique(np.quantile(finite, np.linspace(0, 1, CANDIDATES), method="lower"))
    return [float(np.nextafter(np.float32(quantiles[0]), np.float32(-np.inf))), *quantiles.tolist(), np.inf]


def calibrated(record: Record, signal: str, allowance: Allowance) -> Policy:
    """The threshold with the fewest mean steps within the allowance, on these puzzles; of equals the most exact."""
    full = outcome(record, np.full(record.puzzles, record.steps))
    best: tuple[tuple[float, float], Policy] | None = None
    for threshold in thresholds(record, signal):
        policy = Policy(f"{signal}, calibrated", signal, threshold)
        seen = outcome(record, policy.stops(record))
        key = (seen["mean_steps"], -seen["exact"])
        if allowance.met(seen, full) and (best is None or key < best[0]):
            best = key, policy
    assert best is not None, "never stopping is always allowed"
    return best[1]


def policies_for(calibration: Record, trained_steps: int, allowance: Allowance) -> list[Policy]:
    """All T steps, the trained steps, the halting head as trained, and every signal calibrated."""
    steps = calibration.steps
    found = [Policy(f"fixed {steps}", FIXED, np.inf)]
    if trained_steps < steps:
        found.append(Policy(f"fixed {trained_steps}", FIXED, trained_steps - 0.5))
    if "q" in calibration.signals:
        found.append(Policy("q > 0, as trained", "q", 0.0))
    return found + [calibrated(calibration, signal, allowance) for signal in (FIXED, *calibration.signals)]


def frontier(record: Record, signal: str) -> list[dict[str, float]]:
    """Mean steps and exact at every threshold worth trying, for the Pareto plot: equal points once, by mean steps."""
    points = set()
    for threshold in thresholds(record, signal):
        seen = outcome(record, Policy(signal, signal, threshold).stops(record))
        points.add((seen["mean_steps"], seen["exact"]))
    return [{"mean_steps": mean, "exact": exact} for mean, exact in sorted(points)]
