"""What the halting head knows, and bins of difficulty, against loops and by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datasets_gen.sudoku import Sudoku
from reason.extensions.studies.difficulty import binned, difficulty
from reason.extensions.studies.halting import auc, ece, of_highest, reliability


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(-2, 2), st.booleans()), min_size=1, max_size=12))
def test_auc_is_the_share_of_pairs_in_order(rows: list[tuple[int, bool]]) -> None:
    scores, positive = np.array([s for s, _ in rows], float), np.array([p for _, p in rows])
    pairs = [(a > b) + 0.5 * (a == b) for a in scores[positive] for b in scores[~positive]]
    assert auc(scores, positive) == (pytest.approx(np.mean(pairs)) if pairs else None)


def test_calibration_by_hand() -> None:
    """15 bins: 0 and .05 share the first, .99 and 1 the last; a bin that is too sure and one that is too shy add up."""
    probability = np.array([0.0, 0.05, 0.5, 0.99, 1.0])
    exact = np.array([True, False, True, True, False])
    rows = reliability(probability, exact)
    assert [row["puzzles"] for row in rows] == [2, 1, 2]
    assert [row["said"] for row in rows] == pytest.approx([0.025, 0.5, 0.995])
    assert [row["true"] for row in rows] == [0.5, 1.0, 0.5]
    assert ece(probability, exact) == pytest.approx((2 * 0.475 + 0.5 + 2 * 0.495) / 5)


def test_up_to_eight_values_are_a_bin_each_and_more_go_into_quartiles() -> None:
    names, index = binned(np.array([4, 2, 4, 9]))
    assert (names, index.tolist()) == (["2", "4", "9"], [1, 0, 1, 2])
    values = np.arange(12)
    names, index = binned(values)
    assert names == ["0 to 1", "2 to 4", "5 to 7", "8 to 11"]
    assert index.tolist() == [0] * 2 + [1] * 3 + [2] * 3 + [3] * 4


def test_difficulty_is_by_depth_by_rating_or_by_what_tells_puzzles_apart() -> None:
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


def test_the_answer_of_the_highest_q_so_far_counts() -> None:
    q = np.array([[0.0, 1, 2], [1, 0, 2], [3, -np.inf, 1]])
    exact = np.array([[0, 1, 1], [1, 0, 0], [0, 0, 0]], bool)
    assert of_highest(q, exact).tolist() == [[False, True, True], [True, True, True], [False, True, True]]
