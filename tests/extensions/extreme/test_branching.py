"""The generator's solver against the other one, and the guesses that it counts."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from datasets_gen.extensions.extreme.branching import BAND, CELL, MIXED, NO_CAP, NOTHING, completions, search
from datasets_gen.extensions.extreme.guesses import guesses, shuffles
from datasets_gen.parallel import seeded
from datasets_gen.sudoku import Sudoku
from datasets_gen.sudoku.solver import full_grid, solve, thin

EASY = "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79"
HARD = "8..........36......7..9.2...5...7.......457.....1...3...1....68..85...1..9....4.."  # Inkala 2012


@settings(max_examples=60)
@given(st.sampled_from([CELL, BAND, MIXED]), st.integers(0, 2**32))
def test_every_rule_finds_as_many_solutions_as_the_other_solver(rule, seed):
    rng = seeded(seed)
    board = full_grid(9, rng)
    board = thin(board, rng)
    clues = np.flatnonzero(board)
    board[clues[: 1 + seed % 2]] = 0  # minimal: several solutions now
    if seed % 3 == 0:
        board[clues[2]] = board[clues[2]] % 9 + 1  # often a contradiction
    found, tree, way = search(board, rule, 2000, NO_CAP, seed, NOTHING)
    assert found == solve(board[None], limit=2000).counts[0]
    assert way <= tree
    assert found <= tree + 1


def test_completions_are_the_clues_that_leave_one_solution():
    rng = seeded(9, 1)
    answer = full_grid(9, rng)
    board = thin(answer, rng)
    board[np.flatnonzero(board)[0]] = 0
    tried = [(cell, digit) for cell in np.flatnonzero(board == 0) for digit in range(1, 10)]
    filled = np.array([np.where(np.arange(81) == cell, digit, board) for cell, digit in tried])
    assert completions(board, 10_000).tolist() == [list(tried[i]) for i in np.flatnonzero(solve(filled).counts == 1)]
    assert len(completions(np.zeros_like(board), 3)) == 0  # given up


def test_shuffles_are_symmetries():
    answer = full_grid(9, seeded(2))
    for cells, digits, _ in shuffles():
        moved = digits[answer[cells]]
        assert Sudoku(9).mistake(moved + 1, moved + 1) is None


def test_no_guess_is_counted_where_deduction_solves():
    easy, hard = (Sudoku(9).parse(text) - 1 for text in (EASY, HARD))
    counted = guesses(np.array([easy, hard]))
    assert counted[0] == 0
    assert counted[1] > 5
    assert guesses(hard[None])[0] == counted[1]
