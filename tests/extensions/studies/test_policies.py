"""Policies and their signals, what the halting head knows, bins of difficulty: against loops and by hand."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import reference
import torch
from evaluators import read, small
from hypothesis import given, settings
from hypothesis import strategies as st

from datasets_gen.sudoku import Sudoku
from reason.data.puzzles import PuzzleData
from reason.extensions.studies.difficulty import DIFFICULTY, binned, difficulty
from reason.extensions.studies.halting import abstention, at_highest, auc, ece
from reason.extensions.studies.policies import Policy, calibrated, frontier, outcome, policies_for, signals
from reason.models.base import IGNORE, Batch, Context, Readout
from reason.models.recursive import RecursiveState
from reason.rollout import StepRecord


def columns(steps, puzzles, seed=0, q=True):
    """Puzzles that get surer and more often right, with ties and stragglers."""
    rng = np.random.default_rng(seed)
    exact = rng.random((steps, puzzles)) < np.linspace(0.3, 0.9, steps)[:, None]
    names = ("q", "margin", "residual") if q else ("margin", "residual")
    means = np.arange(steps)[:, None]
    signals = {name: rng.normal(means, 2, exact.shape).round(1).astype(np.float32) for name in names}
    loss = rng.random((steps, puzzles)).astype(np.float32)
    fixed = np.broadcast_to(means + 1.0, exact.shape)
    return {"exact": exact, "valid": exact, "loss": loss, "fixed": fixed, **signals}


def by_row(seen, signal, threshold):
    """The reference: one puzzle after the other, one step after the other."""
    steps, puzzles = seen["exact"].shape
    sure = [[step for step in range(steps) if float(seen[signal][step, p]) > threshold] for p in range(puzzles)]
    return [found[0] + 1 if found else steps for found in sure]


@settings(max_examples=40)
@given(st.integers(1, 6), st.integers(1, 9), st.sampled_from(["q", "residual", "fixed"]), st.floats(-3, 8, width=32))
def test_a_policy_stops_every_row_where_the_reference_does(n, steps, signal, threshold):
    seen = columns(steps, n)
    stops = by_row(seen, signal, threshold)
    assert Policy("p", signal, threshold).stops(seen).tolist() == stops
    got = outcome(seen, np.array(stops))
    right = [bool(seen["exact"][s - 1, i]) for i, s in enumerate(stops)]
    assert got["exact"] == pytest.approx(sum(right) / n)
    assert got["mean_steps"] == pytest.approx(sum(stops) / n)
    assert got["p95_steps"] == sorted(stops)[math.ceil(0.95 * (n - 1))]


@pytest.mark.parametrize("signal", ["q", "margin", "fixed"])
@pytest.mark.parametrize("drop", [0.0, 0.05])
def test_calibration_finds_the_fewest_steps(signal, drop, monkeypatch):
    monkeypatch.setattr("reason.extensions.studies.policies.DROP", drop)
    seen = columns(8, 60)
    chosen = calibrated(seen, signal).stops(seen)
    fewest = 8.0
    for threshold in [*np.unique(seen[signal]), -1e9, math.inf]:  # every threshold that differs
        stops = np.array(by_row(seen, signal, float(threshold)))
        if seen["exact"][-1].mean() - seen["exact"][stops - 1, np.arange(60)].mean() <= drop + 1e-12:
            fewest = min(fewest, stops.mean())
    assert chosen.mean() == pytest.approx(fewest)
    assert outcome(seen, chosen)["exact"] >= seen["exact"][-1].mean() - drop - 1e-12


def test_text_whose_loss_is_nan_takes_every_step():
    seen = columns(8, 4) | {"tokens": np.ones((1, 4)), "loss": np.full((8, 4), np.nan)}
    assert set(calibrated(seen, "margin").stops(seen)) == {8}


@pytest.mark.parametrize(("budget", "rise"), [(None, 1.01), (0.3, 1.3)])
def test_text_may_lose_a_share_of_its_perplexity(budget, rise):
    """Weighted by each window's tokens; exact, which is 0 on text, does not matter."""
    rng = np.random.default_rng(1)
    seen = columns(8, 40) | {"tokens": rng.integers(1, 9, (1, 40))}
    seen |= {"exact": seen["exact"] & False, "loss": 2 + 2 * 0.3 ** np.arange(8)[:, None] + rng.random(40)}

    def perplexity(stops):
        nats = seen["loss"][stops - 1, np.arange(40)]
        return math.exp((nats * seen["tokens"][0]).sum() / seen["tokens"].sum())

    most = perplexity(np.full(40, 8)) * rise
    stops = calibrated(seen, "margin", budget).stops(seen)
    assert 1 < stops.mean() < 8
    assert outcome(seen, stops)["perplexity"] == pytest.approx(perplexity(stops))
    fitting = [np.array(by_row(seen, "margin", float(each))) for each in [*np.unique(seen["margin"]), -1e9, math.inf]]
    assert stops.mean() == min(each.mean() for each in fitting if perplexity(each) <= most)
    assert frontier(seen, "margin")[-1] == {"mean_steps": 8, "perplexity": pytest.approx(most / rise)}


def test_the_table_has_every_signal_and_no_q_without_a_head():
    calibrated = ["fixed, calibrated", "q, calibrated", "margin, calibrated", "residual, calibrated"]
    names = [policy.name for policy in policies_for(columns(8, 20), 4)]
    assert names == ["fixed 8", "fixed 4", "q > 0, as trained", *calibrated]
    names = [policy.name for policy in policies_for(columns(1, 3, q=False), 8)]
    assert names == ["fixed 1", "fixed, calibrated", "margin, calibrated", "residual, calibrated"]


def test_policies_are_calibrated_on_the_validation_split(monitored_4x4):
    data = PuzzleData(monitored_4x4, "test")
    policies = read(small(data.shape, hidden_size=4), data, 2, 4, studies="policies")["policies"]
    assert policies["calibrated_on"] == "11 puzzles of the validation split"
    assert policies["puzzles"] == len(data)


@pytest.mark.parametrize("likelihood", ["softmax", "stablemax"])
def test_signals_are_means_over_the_scored_cells(likelihood):
    logits = 2 * torch.randn(3, 4, 5)
    labels = torch.tensor([[1, IGNORE, 4, 0], [IGNORE, IGNORE, IGNORE, 2], [3, 3, 0, 1]])
    state = RecursiveState(torch.randn(3, 4, 2), torch.randn(3, 4, 2))
    model = SimpleNamespace(readout=lambda state, context, step: Readout(logits))
    batch = Batch(labels, labels, labels[:, 0])
    record = StepRecord(model, 2, batch, Context(state.z_h), state, state)
    names = ("margin", "max-probability", "certainty", "fixed")
    found = signals(record, likelihood)
    assert found.keys() == set(names)
    for row in range(3):
        expected = {name: [] for name in names} | {"fixed": [2.0]}
        for cell in (labels[row] != IGNORE).nonzero().flatten().tolist():
            said = logits[row, cell].double().numpy()
            p = [math.exp(-reference.cell_loss(said, token, likelihood)) for token in range(5)]
            second, first = sorted(said)[-2:]
            expected["margin"].append(first - second)
            expected["max-probability"].append(max(p))
            expected["certainty"].append(1 - sum(-each * math.log(each) for each in p) / math.log(5))
        for name, values in expected.items():
            assert found[name][row].item() == pytest.approx(np.mean(values), rel=1e-5), name


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(-2, 2), st.booleans()), min_size=1, max_size=12))
def test_auc_is_the_share_of_pairs_in_order(rows):
    scores, positive = np.array([s for s, _ in rows], float), np.array([p for _, p in rows])
    pairs = [(a > b) + 0.5 * (a == b) for a in scores[positive] for b in scores[~positive]]
    assert auc(scores, positive) == (pytest.approx(np.mean(pairs)) if pairs else None)


def test_calibration_and_abstention_by_hand():
    """15 bins: 0 and .05 share the first, .99 and 1 the last; a bin that is too sure and one that is too shy add up."""
    probability = np.array([0.0, 0.05, 0.5, 0.99, 1.0])
    exact = np.array([True, False, True, True, False])
    assert ece(probability, exact) == pytest.approx((2 * 0.475 + 0.5 + 2 * 0.495) / 5)
    q, exact = np.array([5.0, 3.0, 2.0, 1.0, -1.0, -np.inf]), np.array([True, False, True, True, True, False])
    rows = [(row["threshold"], row["given"], row["wrong"], row["checked"]) for row in abstention(q, exact, valid=exact)]
    assert rows == [(None, 5, 1, 4), (0.0, 4, 1, 3), *[(3.0, 1, 0, 1)] * 4]
    assert [row["given"] for row in abstention(q[2:5], exact[2:5])] == [3, 2, 3, 3, 3, 3], "none of these is wrong"


def test_difficulty_is_by_depth_rating_or_what_tells_puzzles_apart_in_a_few_bins():
    names, index = binned(np.array([4, 2, 4, 9]))
    assert (names, index.tolist()) == (["2", "4", "9"], [1, 0, 1, 2])
    names, index = binned(np.arange(12))
    assert names == ["0 to 1", "2 to 4", "5 to 7", "8 to 11"]
    assert index.tolist() == [0] * 2 + [1] * 3 + [2] * 3 + [3] * 4
    clues, depth, rated = {"clues": np.array([1, 2, 1])}, {"depth": np.array([0, 2, 0])}, np.array([0.0, 30.0, 0.0])
    shallow, none, some = {"depth": np.zeros(3)}, np.zeros(3), np.array([np.nan, 0.5, np.nan])
    for ratings, statistics, expected in (
        (rated, clues | depth, ("depth", ["0", "2"], [0, 1, 0])),
        (rated, clues | shallow, ("rating (guesses)", ["0", "30"], [0, 1, 0])),
        (some, clues, ("rating (guesses)", ["0.5", "not rated"], [1, 0, 1])),
        (none, clues | shallow, ("clues", ["1", "2"], [0, 1, 0])),
        (None, clues, ("clues", ["1", "2"], [0, 1, 0])),
    ):
        name, names, index = difficulty(Sudoku(4), ratings, statistics)
        assert (name, names, index.tolist()) == expected
    assert difficulty(Sudoku(4), np.full(3, np.nan), {"clues": np.ones(3)}) is None
    assert difficulty(None, np.array([1, 2, 2]), {})[:2] == ("rating", ["1", "2"])
    found = {"by": "clues", "bins": [{"bin": "4", "puzzles": 2, "exact_by_step": [0.5, 1.0]}]}
    (table,) = DIFFICULTY.tables({"difficulty": found, "trained_steps": 2, "steps": 2})  # a step has one column
    assert table.columns[2:] == ("exact at step 1", "at 2", "95 % interval")
    assert table.rows[0][2:4] == ["50.0%", "100.0%"]


def test_the_answer_of_the_highest_q_so_far_counts():
    q = np.array([[0.0, 1, 2], [1, 0, 2], [3, -np.inf, 1]])
    exact = np.array([[0, 1, 1], [1, 0, 0], [0, 0, 0]], bool)
    assert at_highest(q, exact).tolist() == [[False, True, True], [True, True, True], [False, True, True]]
