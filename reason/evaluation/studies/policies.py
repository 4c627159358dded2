"""Stopping policies: when to stop thinking, calibrated, compared and timed (docs/math.md §17).

Every policy is one rule: stop at the first step whose signal exceeds a threshold, else at step T. Signals grow with
sureness, so a fixed number of steps is a policy on the signal m, and a residual is negative.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from matplotlib.axes import Axes
from torch import Tensor
from tqdm import tqdm

from datasets_gen.layout import splits_of
from reason.data import PuzzleData
from reason.errors import ConfigError
from reason.evaluation.accuracy import Accuracy
from reason.evaluation.evaluator import Columns, Consumer, Evaluator
from reason.evaluation.probes import mapped
from reason.evaluation.signals import SIGNALS, Signals, signals, survived
from reason.models.base import Readout, State
from reason.models.record import StepRecord
from reason.report.chart import Chart, doubling_axis, errorbars, label_ends, shares_axis
from reason.report.palette import styled
from reason.report.section import Results, Section, Table, cells, interval, share
from reason.training.distributed import World

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


class Policies(Consumer):
    """Calibrated on one part of the puzzles, reported on another, and timed, from the columns of Signals."""

    def __init__(self, evaluator: Evaluator):
        super().__init__(evaluator)
        settings, self._other = evaluator.settings, None
        name, data = settings.calibration, evaluator.data
        if name == "auto":
            name = "validation" if "validation" in splits_of(data.directory) else data.split
        if name != data.split:
            self._other = PuzzleData(data.directory, name, data.device)
            if not len(self._other):
                raise ConfigError(f"evaluation.calibration={name}: that split is empty; name another")
        heads = evaluator.heads
        policies = 7 + 2 * (heads.q_halt is not None) + (heads.gate is not None)
        halves = len(evaluator.examples) // (1 if self._other else 2)
        self.cost = f"policies: up to {policies} passes over {max(halves, 1):,} puzzles, each for a policy's seconds"

    _other: PuzzleData | None

    def result(self, seen: Columns) -> dict[str, Any]:
        """What each policy gives by the record, and by the clock against leaving nobody out."""
        evaluator, settings = self.evaluator, self.evaluator.settings
        calibration, tested, source = self._calibration(seen)
        seen = outcomes_of(seen, tested)
        causal = evaluator.puzzle is not None and evaluator.puzzle.causal
        budget = settings.budget if settings.budget != "auto" else "perplexity" if causal else "exact"
        allowance = Allowance(budget, settings.drop, settings.perplexity)
        rows: list[dict[str, Any]] = []
        for policy in policies_for(calibration, evaluator.trained_steps, allowance):
            live = run_with(policy, evaluator, evaluator.examples.cpu().numpy()[tested])
            finite = np.isfinite(policy.threshold)
            rows.append(
                {"name": policy.name, "signal": policy.signal, "threshold": policy.threshold if finite else None}
                | outcome(seen, policy.stops(seen))
                | {"live_exact": float(live.exact.mean()), "live_mean_steps": float(live.steps.mean())}
                | {"seconds": live.seconds}
            )
        for row in rows:
            row["speedup"] = rows[0]["seconds"] / row["seconds"]
        return {
            "policies": {
                "calibrated_on": source,
                "puzzles": len(tested),
                "allowance": asdict(allowance),
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
                found, _ = other.observe([Accuracy(other), Signals(other)])
            return found, everyone, f"{len(other.examples)} puzzles of the {self._other.split} split"
        if len(everyone) == 1:
            return seen, everyone, f"the one puzzle of the {own} split"
        return outcomes_of(seen, slice(None, None, 2)), everyone[1::2], f"every other puzzle of the {own} split"


@dataclass(frozen=True)
class Exits:
    """What the puzzles left with, in the order in which they were given."""

    exact: np.ndarray  # (N,) bool
    steps: np.ndarray  # (N,) int64
    seconds: float


@dataclass(frozen=True)
class MixedRecord(StepRecord):
    """A step of rows that are at different steps: taken (B,), m of each."""

    taken: Tensor | None = None

    def read(self, state: State) -> Readout:
        """The readout of each row as of its own step: the final one, or the one before `final_from`."""
        model = self.model
        late = model.readout(state)
        if model.final_from <= 1:
            return late
        assert self.taken is not None
        early, final = model.readout(state, model.final_from - 1), self.taken >= model.final_from
        chosen = {
            name: torch.where(final.view(-1, *[1] * (value.ndim - 1)), value, getattr(early, name))
            for name, value in late._asdict().items()
            if value is not None
        }
        return Readout(**chosen)


@torch.inference_mode()
def run_with(policy: Policy, evaluator: Evaluator, examples: np.ndarray) -> Exits:
    """Examples (N,) of the split under a policy, at most T supervision steps each.

    The batch stays full while puzzles wait, then shrinks. One wait for the device a step: who leaves?
    """
    model, data, steps = evaluator.model.eval(), evaluator.data, evaluator.steps
    device, size = data.device, evaluator.settings.batch_size
    waiting = torch.from_numpy(np.ascontiguousarray(examples)).to(device)
    exact = torch.zeros(len(examples), dtype=torch.bool, device=device)
    taken = torch.zeros(len(examples), dtype=torch.int64, device=device)
    place = torch.arange(min(size, len(examples)), device=device)  # (B,) which of the N a row is
    batch = data.take(waiting[place])

    def own(state: State, numbers: Tensor) -> State:
        """The states from which these puzzles begin in the pass."""
        start = evaluator.start(numbers)
        return state if start is None else start(state)

    x, m, entered = model.encode(batch), torch.zeros_like(place), len(place)
    state = own(model.initial_state(x), waiting[place])
    survival: Tensor | None = None
    started = time.perf_counter()
    bar = tqdm(total=len(examples), unit="puzzle", desc=policy.name, disable=not evaluator.progress, dynamic_ncols=True)
    with bar:
        while len(place):
            before, state, m = state, model.step(state, x), m + 1
            record = MixedRecord(model, 0, batch, x, before, state, taken=m)
            survival = survived(survival, record.readout)
            if policy.signal == FIXED:
                signal = m.float()
            else:
                one = (policy.signal,)
                signal = signals(record, evaluator.likelihood, evaluator.halting, survival, one)[policy.signal]
            leaves = (signal > policy.threshold) | (m >= steps)
            rows = leaves.nonzero().flatten()
            if not len(rows):
                continue
            exact[place[rows]] = record.exact[rows]
            taken[place[rows]] = m[rows]
            bar.update(len(rows))
            enter = torch.arange(entered, min(entered + len(rows), len(examples)), device=device)
            entered += len(enter)
            if len(enter):
                fresh, seats = data.take(waiting[enter]), rows[: len(enter)]
                x_fresh = model.encode(fresh)
                begun = own(model.initial_state(x_fresh), waiting[enter])
                state = mapped(state, lambda z, new, at=seats: z.index_copy(0, at, new), begun)
                batch = batch.merge(fresh, partial(_put, rows=seats))
                place, m = place.index_copy(0, seats, enter), m.index_fill(0, seats, 0)
                survival = None if survival is None else survival.index_fill(0, seats, 0)
            if len(enter) < len(rows):
                stay = torch.ones(len(place), dtype=torch.bool, device=device)
                stay[rows[len(enter) :]] = False
                kept = stay.nonzero().flatten()
                state, batch = mapped(state, partial(_cut, rows=kept)), batch.each(partial(_taken, rows=kept))
                place, m = place[kept], m[kept]
                survival = None if survival is None else survival[kept]
            x = model.encode(batch) if len(place) else x
    return Exits(exact.cpu().numpy(), taken.cpu().numpy(), time.perf_counter() - started)


def _put(old: Tensor, new: Tensor, rows: Tensor) -> Tensor:
    return old.index_copy(0, rows, new)


def _taken(part: Tensor, rows: Tensor) -> Tensor:
    return part[rows]


def _cut(z: Tensor, rows: Tensor) -> Tensor:
    """Some rows of (B, S, D), in the memory order that z has: the sequence may lie first."""
    if z.stride(0) < z.stride(1):
        return z.transpose(0, 1).index_select(1, rows).transpose(0, 1)
    return z.index_select(0, rows)


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
        label_ends(axes)

    says = "; ".join(f"{r['name']}: {share(r['exact'])} after {r['mean_steps']:.1f} steps" for r in found["rows"])
    return [Chart("exact against mean steps", says, draw)]


def _note(results: Results) -> str:
    found = results["policies"]
    return (
        f"Calibrated on {found['calibrated_on']}, reported on {found['puzzles']} puzzles. Speedup: seconds of all "
        "steps over seconds with finished puzzles leaving the batch. Lines: every threshold of a signal; filled "
        "points: calibrated, open: as trained or fixed; bars: Wilson's 95 % interval."
    )


POLICIES = Section(
    "policies",
    "When to stop",
    _tables,
    {"policies": _charts},
    {"policies": lambda results: results["policies"]["rows"]},
    _note,
)
