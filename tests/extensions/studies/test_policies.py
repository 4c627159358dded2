"""Policies against a row-by-row reference, and at work: what a puzzle leaves with is what the record says."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from evaluators import read, small
from hypothesis import given, settings
from hypothesis import strategies as st

from reason.data import PuzzleData
from reason.evaluation.config import EvaluationConfig
from reason.evaluation.evaluator import Accuracy, Columns, Evaluator
from reason.evaluation.studies.by_step import Signals
from reason.extensions.studies import policies as P
from reason.extensions.studies.policies import Policy, calibrated, outcome
from reason.models import RecursiveConfig, build_model
from reason.models.base import Reasoner


def columns(steps: int, puzzles: int, seed: int = 0, q: bool = True) -> dict[str, np.ndarray]:
    """Puzzles that get surer and more often right, with ties and stragglers."""
    rng = np.random.default_rng(seed)
    exact = rng.random((steps, puzzles)) < np.linspace(0.3, 0.9, steps)[:, None]
    names = ("q", "margin", "residual") if q else ("margin", "residual")
    signals = {name: rng.normal(np.arange(steps)[:, None], 2, (steps, puzzles)).round(1) for name in names}
    loss = rng.random((steps, puzzles)).astype(np.float32)
    signals = {name: values.astype(np.float32) for name, values in signals.items()}
    return {"exact": exact, "valid": exact, "loss": loss, **signals}


def by_row(seen: dict[str, np.ndarray], signal: str, threshold: float) -> list[int]:
    """The reference: one puzzle after the other, one step after the other."""
    stops = []
    steps, puzzles = seen["exact"].shape
    for puzzle in range(puzzles):
        for step in range(1, steps + 1):
            value = step if signal == "fixed" else float(seen[signal][step - 1, puzzle])
            if value > threshold or step == steps:
                stops.append(step)
                break
    return stops


@settings(max_examples=40)
@given(st.integers(1, 6), st.integers(1, 9), st.sampled_from(["q", "residual", "fixed"]), st.floats(-3, 8, width=32))
def test_a_policy_stops_every_row_where_the_reference_does(n: int, steps: int, signal: str, threshold: float) -> None:
    seen = columns(steps, n)
    stops = by_row(seen, signal, threshold)
    assert Policy("p", signal, threshold).stops(seen).tolist() == stops
    got = outcome(seen, np.array(stops))
    right = [bool(seen["exact"][s - 1, i]) for i, s in enumerate(stops)]
    assert got["exact"] == pytest.approx(sum(right) / n)
    assert got["mean_steps"] == pytest.approx(sum(stops) / n)
    assert got["p95_steps"] == sorted(stops)[math.ceil(0.95 * (n - 1))]


def test_a_signal_at_its_threshold_does_not_stop() -> None:
    seen = columns(4, 1)
    seen["q"][:, 0] = [0, 1, 2, 3]
    assert Policy("p", "q", 1.0).stops(seen).tolist() == [3]
    assert Policy("p", "fixed", 1.0).stops(seen).tolist() == [2]
    assert Policy("p", "q", 3.0).stops(seen).tolist() == [4]


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 9), st.sampled_from(["q", "residual", "fixed"]), st.integers(0, 99))
def test_a_higher_threshold_stops_nobody_earlier(steps: int, signal: str, seed: int) -> None:
    """So the first threshold within the budget has the fewest steps."""
    seen = columns(steps, 7, seed)
    stops = [Policy("p", signal, threshold).stops(seen) for threshold in P.thresholds(seen, signal)]
    assert (np.diff(stops, axis=0) >= 0).all()
    assert (stops[0] == 1).all()
    assert (stops[-1] == steps).all()


@pytest.mark.parametrize("signal", ["q", "margin", "fixed"])
@pytest.mark.parametrize("drop", [0.0, 0.05])
def test_calibration_finds_the_fewest_steps(signal: str, drop: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(P, "DROP", drop)
    seen = columns(8, 60)
    chosen = calibrated(seen, signal).stops(seen)
    fewest = 8.0
    for threshold in [*np.unique(P.signal_of(seen, signal)), -1e9, math.inf]:  # every threshold that differs
        stops = np.array(by_row(seen, signal, float(threshold)))
        if seen["exact"][-1].mean() - seen["exact"][stops - 1, np.arange(60)].mean() <= drop + 1e-12:
            fewest = min(fewest, stops.mean())
    assert chosen.mean() == pytest.approx(fewest)
    assert outcome(seen, chosen)["exact"] >= seen["exact"][-1].mean() - drop - 1e-12


def test_the_table_has_every_signal_and_no_q_without_a_head() -> None:
    names = [policy.name for policy in P.policies_for(columns(8, 20), 4)]
    assert names == [
        "fixed 8", "fixed 4", "q > 0, as trained", "fixed, calibrated", "q, calibrated", "margin, calibrated",
        "residual, calibrated",
    ]  # fmt: skip
    names = [policy.name for policy in P.policies_for(columns(4, 20, q=False), 4)]
    assert names[:2] == ["fixed 4", "fixed, calibrated"]  # T is named once
    names = [policy.name for policy in P.policies_for(columns(1, 3, q=False), 8)]
    assert names == ["fixed 1", "fixed, calibrated", "margin, calibrated", "residual, calibrated"]


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_none_and_all_solved(share: float) -> None:
    seen = columns(5, 7)
    seen["exact"][:] = bool(share)
    del seen["valid"]
    policy = calibrated(seen, "q")
    assert policy.stops(seen).max() == 1  # nothing can be lost
    assert outcome(seen, policy.stops(seen))["valid"] is None


def test_the_frontier_runs_from_one_step_to_all() -> None:
    seen = columns(6, 30)
    for signal in ("q", "fixed"):
        points = P.frontier(seen, signal)
        assert (points[0]["mean_steps"], points[-1]["mean_steps"]) == (1, 6)
        assert points[-1]["exact"] == pytest.approx(seen["exact"][-1].mean())


def test_a_signal_of_infinities_never_stops() -> None:
    seen = columns(3, 4)
    seen["residual"][:] = -np.inf
    assert P.thresholds(seen, "residual") == [np.inf]
    assert calibrated(seen, "residual").stops(seen).tolist() == [3] * 4


def test_policies_are_calibrated_on_the_validation_split(monitored_4x4: Path) -> None:
    data = PuzzleData(monitored_4x4, "test")
    policies = read(small(data.shape, hidden_size=4), data, 2, 4, policies=True)["policies"]
    assert policies["calibrated_on"] == "11 puzzles of the validation split"
    assert policies["puzzles"] == len(data)


RECURSIVE = {"hidden_size": 8, "num_heads": 1, "expansion": 1, "puzzle_emb_len": 1, "h_cycles": 1, "l_cycles": 1}
MODELS = {
    "mlp, two states": RecursiveConfig(**RECURSIVE, mixer="mlp", positions="none"),
    "attention, one state": RecursiveConfig(**RECURSIVE, mixer="attention", positions="none", states=1),
}


def passed(model: Reasoner, data: PuzzleData, steps: int, batch_size: int) -> Columns:
    settings = EvaluationConfig(steps=steps, batch_size=batch_size, policies=True)
    evaluator = Evaluator(model, data, settings, steps, progress=False)
    with torch.no_grad():
        return evaluator.observe([Accuracy(evaluator), Signals(evaluator), P.Policies(evaluator)])[0]


@pytest.mark.parametrize("config", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("batch_size", [1, 5, 50])
def test_rows_that_leave_leave_with_what_the_record_says(config, batch_size: int, sudoku_4x4: Path) -> None:
    data = PuzzleData(sudoku_4x4, "test")
    model = build_model(config, data.shape).double()
    model.dtype = torch.float64  # so that the order of sums decides nothing
    for name, weight in model.named_parameters():
        if "q_head" in name:
            torch.nn.init.normal_(weight)
    seen = passed(model, data, 6, 4)
    evaluator = Evaluator(model, data, EvaluationConfig(steps=6, batch_size=batch_size), 6, progress=False)
    examples = torch.tensor([3, 0, 11, 7, 8, 1, 2])
    assert len(P.signals_in(seen)) >= 5
    for signal in P.signals_in(seen):
        values = np.unique(P.signal_of(seen, signal))
        threshold = float((values[len(values) // 2 - 1] + values[len(values) // 2]) / 2)
        policy = Policy("p", signal, threshold)
        exact, taken, _ = P.run_with(policy, evaluator, examples)
        stops = policy.stops(seen)[examples]
        assert taken.tolist() == stops.tolist(), signal
        assert exact.tolist() == seen["exact"][stops - 1, examples].tolist()


@pytest.mark.parametrize("config", MODELS.values(), ids=MODELS)
def test_rows_at_their_threshold_stay(config, sudoku_4x4: Path) -> None:
    """m = 2 does not exceed 2; and a policy that never stops leaves at T."""
    data = PuzzleData(sudoku_4x4, "test")
    model = build_model(config, data.shape)
    evaluator = Evaluator(model, data, EvaluationConfig(steps=4, batch_size=3), 4, progress=False)
    for threshold, steps in ((2.0, 3), (math.inf, 4)):
        _, taken, _ = P.run_with(Policy("p", "fixed", threshold), evaluator, torch.arange(7))
        assert taken.tolist() == [steps] * 7
