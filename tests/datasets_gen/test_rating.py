"""The rating of Sudoku: its solver against the other one, its rules, and tdoku's guesses on real puzzles."""

import csv
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

from datasets_gen.parallel import seeded
from datasets_gen.sudoku import Sudoku
from datasets_gen.sudoku.branching import BAND, CELL, MIXED, NO_CAP, NOTHING, completions, search, thin
from datasets_gen.sudoku.rating import RULES, combined, rate, rule_guesses, shuffles
from datasets_gen.sudoku.solver import full_grid, solve

SIZES = [4, 6, 9]


def measured():
    """Puzzles with the mean guesses of tdoku over 8 random symmetries: from collections, and from a one-rule search."""
    with (Path(__file__).parent / "fixtures/sudoku_guesses.csv").open() as file:
        rows = list(csv.DictReader(file))
    boards = np.array([Sudoku(9).parse(row["question"]) for row in rows]) - 1
    return np.array([row["source"] for row in rows]), boards, np.array([float(row["guesses"]) for row in rows])


@settings(max_examples=60)
@given(st.sampled_from(SIZES), st.sampled_from([CELL, BAND, MIXED]), st.integers(0, 2**32))
def test_every_rule_finds_as_many_solutions_as_the_other_solver(size, rule, seed):
    rng = seeded(seed)
    board = full_grid(size, rng)
    board = thin(board, board, rng)
    clues = np.flatnonzero(board)
    board[clues[: 1 + seed % 2]] = 0  # minimal: several solutions now
    if seed % 3 == 0:
        board[clues[2]] = board[clues[2]] % size + 1  # often a contradiction
    found, tree, way = search(board, rule, 2000, NO_CAP, seed, NOTHING)
    assert found == solve(board[None], limit=2000).counts[0]
    assert way <= tree
    assert found <= tree + 1


@pytest.mark.parametrize("size", SIZES)
def test_completions_are_the_clues_that_leave_one_solution(size):
    rng = seeded(size, 1)
    answer = full_grid(size, rng)
    board = thin(answer, answer, rng)
    board[np.flatnonzero(board)[0]] = 0
    tried = [(cell, digit) for cell in np.flatnonzero(board == 0) for digit in range(1, size + 1)]
    filled = np.array([np.where(np.arange(size**2) == cell, digit, board) for cell, digit in tried])
    assert completions(board, 10_000).tolist() == [list(tried[i]) for i in np.flatnonzero(solve(filled).counts == 1)]
    assert len(completions(np.zeros_like(board), 3)) == 0  # given up


@pytest.mark.parametrize("size", SIZES)
def test_shuffles_are_symmetries(size):
    answer = full_grid(size, seeded(size, 2))
    for shuffle in shuffles(size, 6):
        moved = shuffle.digits[answer[shuffle.cells]]
        assert Sudoku(size).mistake(moved + 1, moved + 1) is None
    for few, many in zip(shuffles(size, 3), shuffles(size, 6), strict=False):
        assert (few.cells == many.cells).all()
        assert few.seed == many.seed


def test_one_easy_rule_makes_a_puzzle_easy():
    assert combined(np.array([[25.0, 10.0, 10.0]]))[0] == pytest.approx(10)
    assert combined(np.array([[1e9, 1e9, 2.0]]))[0] == pytest.approx(6)
    assert combined(np.array([[50.0, 0.0, 30.0]]))[0] == 0


def test_the_rating_does_not_depend_on_the_company():
    boards = measured()[1][::20]
    assert (rate(boards)[3] == rate(boards[3:4])).all()
    assert rule_guesses(boards, count=2).shape == (len(boards), len(RULES))


def test_the_rating_ranks_real_puzzles_as_tdoku_does():
    source, boards, guesses = measured()
    real = source != "one rule"
    rating = rate(boards)
    assert spearmanr(rating[real], guesses[real]).statistic > 0.8
    hardest = source == "puzzles5_forum_hardest_1905_11+"
    assert rating[hardest].mean() == pytest.approx(guesses[hardest].mean(), rel=0.2)


def test_puzzles_that_are_hard_for_one_rule_alone_are_not_rated_hard():
    source, boards, guesses = measured()
    fooled = source == "one rule"  # 20 or more guesses of the rule that the search climbed on, fewer than 5 of tdoku
    assert fooled.sum() == 20
    assert guesses[fooled].max() < 5
    rating = rate(boards[fooled])
    assert rating.mean() < 5
    assert (rating < 20).all()
