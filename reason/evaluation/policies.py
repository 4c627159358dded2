"""Stopping policies: a signal and the threshold that it must exceed (docs/math.md §17).

Every policy is one rule, "stop at the first step whose signal exceeds the threshold, else at T", on signals that grow
with sureness; so the fixed policy is the signal m, and a residual is negative. A model that says more (an exit gate)
adds a signal, nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from reason.evaluation.evaluator import Columns
from reason.evaluation.halting_signals import SIGNALS

FIXED = "fixed"
CANDIDATES = 256  # thresholds tried in a calibration: quantiles of the signal
Budget = Literal["exact", "perplexity"]


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


def calibrated(seen: Columns, signal: str, allowance: Allowance) -> Policy:
    """The lowest threshold within the allowance, which has the fewest mean steps: a higher one stops nobody earlier."""
    steps, puzzles = seen["exact"].shape
    full = outcome(seen, np.full(puzzles, steps))
    policies = [Policy(f"{signal}, calibrated", signal, threshold) for threshold in thresholds(seen, signal)]
    met = (policy for policy in policies if allowance.met(outcome(seen, policy.stops(seen)), full))
    return next(met, policies[-1])  # all T steps, where a NaN loss compares with nothing


def policies_for(calibration: Columns, trained_steps: int, allowance: Allowance) -> list[Policy]:
    """All T steps, the trained steps, the halting head as trained, and every signal calibrated."""
    steps = len(calibration["exact"])
    found = [Policy(f"fixed {steps}", FIXED, np.inf)]
    if trained_steps < steps:
        found.append(Policy(f"fixed {trained_steps}", FIXED, trained_steps - 0.5))
    if "q" in calibration:
        found.append(Policy("q > 0, as trained", "q", 0.0))
    return found + [calibrated(calibration, signal, allowance) for signal in signals_in(calibration)]


def frontier(seen: Columns, signal: str) -> list[dict[str, float]]:
    """Mean steps and exact at every threshold worth trying, for the Pareto plot: equal points once, by mean steps."""
    points = set()
    for threshold in thresholds(seen, signal):
        found = outcome(seen, Policy(signal, signal, threshold).stops(seen))
        points.add((found["mean_steps"], found["exact"]))
    return [{"mean_steps": mean, "exact": exact} for mean, exact in sorted(points)]
