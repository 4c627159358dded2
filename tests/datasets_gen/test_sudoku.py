"""Rules, solver, generator and symmetries of Sudoku."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from datasets_gen.layout import DatasetError
from datasets_gen.sudoku import Sudoku
from datasets_gen.sudoku.generate import random_splits
from datasets_gen.sudoku.signature import signatures
from datasets_gen.sudoku.solver import full_grid, solve, thin
from datasets_gen.sudoku.tables import BOXES, geometry
from reason.data.augmentation import draw_symmetries

SIZES = pytest.mark.parametrize("size", BOXES)
HARD = "8..........36......7..9.2...5...7.......457.....1...3...1....68..85...1..9....4.."  # Inkala 2012
HARD_ANSWER = "812753649943682175675491283154237896369845721287169534521974368438526917796318452"


def random_puzzle(size, rng):
    """Question and answer (S,) of digits."""
    answer = full_grid(size, rng)
    return thin(answer, rng), answer


def put(board, cell, value):
    return np.where(np.arange(len(board)) == cell, value, board).astype(np.uint8)


def count_solutions_naively(board, size):
    """Plain backtracking over the first open cell, as an independent judge."""
    for unit in geometry(size).units:
        digits = board[unit][board[unit] > 0].tolist()
        if len(set(digits)) < len(digits):
            return 0
    if board.all():
        return 1
    return sum(count_solutions_naively(put(board, board.argmin(), digit + 1), size) for digit in range(size))


def test_known_counts_and_the_answer_of_a_famous_hard_puzzle():
    assert solve(np.zeros((1, 16), np.uint8), limit=1000).counts[0] == 288
    solved = solve(Sudoku(9).parse(HARD)[None] - 1)
    assert solved.counts[0] == 1
    assert "".join(map(str, solved.solutions[0])) == HARD_ANSWER


@settings(max_examples=60)
@given(st.sampled_from([4, 6]), st.integers(0, 2**32), st.integers(2, 9))
def test_the_solver_counts_as_plain_backtracking_does(size, seed, opened):
    rng = np.random.default_rng(seed)
    board = full_grid(size, rng)
    board[rng.permutation(size * size)[: opened + size]] = 0
    if seed % 3 == 0:  # often a contradiction
        filled = np.flatnonzero(board)
        board[filled[0]] = board[filled[0]] % size + 1
    assert solve(board[None], limit=10_000).counts[0] == count_solutions_naively(board, size)


@SIZES
def test_minimal_puzzles_have_one_solution_and_no_clue_to_spare(size):
    rng = np.random.default_rng(size)
    for _ in range(10):
        question, answer = random_puzzle(size, rng)
        solved = solve(question[None])
        assert solved.counts[0] == 1
        assert (solved.solutions[0] == answer).all()
        spared = np.array([put(question, cell, 0) for cell in np.flatnonzero(question)])
        assert (solve(spared).counts == 2).all()


@SIZES
@settings(max_examples=25)
@given(seed=st.integers(0, 2**32))
def test_signatures_are_invariant_and_tell_puzzles_apart(size, seed):
    rng = np.random.default_rng(seed)
    question, answer = random_puzzle(size, rng)
    moved = draw_symmetries(8, Sudoku(size).symmetry, torch.Generator().manual_seed(seed))  # as training draws them
    boards = torch.tensor(np.stack([question, answer]) + 1).long()
    copies = [moved.apply(board.expand(8, -1)).numpy().astype(np.uint8) for board in boards]
    own = signatures(question[None], answer[None])[0]
    assert (signatures(*(tokens - 1 for tokens in copies)) == own).all()
    assert Sudoku(size).valid(*copies).all()
    opened = np.flatnonzero(question == 0)[0]
    assert signatures(put(question, opened, answer[opened])[None], answer[None])[0] != own


def test_4x4_signatures_do_not_merge_moved_boards():
    """Their whole space has 288 grids; relabelling alone leaves 288 / 4! = 12 classes."""
    blank = np.zeros((1, 16), np.uint8)
    rng = np.random.default_rng(0)
    grids = {tuple(full_grid(4, rng)) for _ in range(2000)}
    assert len(grids) == 288
    answers = np.array(sorted(grids), np.uint8)
    assert len(np.unique(signatures(np.repeat(blank, 288, 0), answers))) == 12


@SIZES
def test_fault_and_valid_name_the_same_puzzles(size):
    puzzle = Sudoku(size)
    question, answer = (digits + 1 for digits in random_puzzle(size, np.random.default_rng(7)))
    clue, blank = np.flatnonzero(question > 1)[0], np.flatnonzero(question == 1)[0]
    for q, a, words in [
        (question, answer, None),
        (put(question, clue, (question[clue] - 1) % size + 2), answer, "where the question has the clue"),
        (put(question, blank, 0), answer, "the question has token 0"),
        (put(question, clue, 1), answer, "more than one solution"),
        (question, put(answer, blank, (answer - 1) % size + 2), "twice"),
        (question, put(answer, blank, 1), "the answer has token 1"),
    ]:
        fault = puzzle.fault(q, a)
        assert (fault is None) == puzzle.valid(q[None], a[None])[0] == (words is None)
        assert words is None or words in fault


@SIZES
def test_splits_are_disjoint_under_the_symmetries_and_a_validation_split_changes_no_other(size):
    splits = random_splits(size, {"train": 200, "validation": 100, "test": 100}, seed=5)
    joined = [np.concatenate([getattr(split, key) for split in splits.values()]) for key in ("inputs", "labels")]
    assert len(np.unique(Sudoku(size).signatures(*joined))) == 400
    assert Sudoku(size).valid(*joined).all()
    without = random_splits(size, {"train": 200, "test": 100}, seed=5)
    assert all((without[name].inputs == splits[name].inputs).all() for name in without)


@pytest.mark.parametrize("clues", [8, 30, 35])
def test_the_number_of_clues_is_kept(clues):
    split = random_splits(6, {"train": 20}, clues=clues)["train"]
    assert ((split.inputs > 1).sum(1) == clues).all()


@pytest.mark.slow
def test_4x4_minimal_puzzles_run_out_and_it_says_so():
    """85,632 minimal 4×4 puzzles / 4! relabellings = 3,568."""
    with pytest.raises(DatasetError, match="different minimal puzzles were generated") as error:
        random_splits(4, {"train": 4000})
    assert 3500 < int(str(error.value).split()[1]) <= 3568
