"""Deep Sudokus: the exocets that a lineage begins with, what generations climb on, and the puzzles that it finds."""

import hashlib

import numpy as np
import pytest
from test_depth import HARD, board_of

from datasets_gen.extensions.extreme import deep
from datasets_gen.extensions.extreme.branching import PASSES, endurance
from datasets_gen.extensions.extreme.depth import depths
from datasets_gen.extensions.extreme.exocet import exocet_puzzle, holds_exocet
from datasets_gen.extensions.extreme.neighbours import solution_classes
from datasets_gen.parallel import Chunk
from datasets_gen.sudoku import Sudoku
from datasets_gen.sudoku.solver import solve

DEEP, MIDDLE, EASY = map(board_of, HARD)
ROOT = board_of("..5..4.8.73...54...9..7...5..3.528....9.8.3..2......6...7.4.9.....1..............")  # of a lineage


def solved(board):
    return solve(board[None]).solutions[0]


def test_a_lineage_begins_with_an_exocet() -> None:
    """One solution, and an exocet however the board is turned; without two thirds of its clues there is none."""
    rng = np.random.default_rng(0)
    for question, answer in (exocet_puzzle(rng) for _ in range(6)):
        assert Sudoku(9).mistake(question + 1, answer + 1) is None
        assert solve(question[None]).counts[0] == 1
        assert holds_exocet(question)
        assert holds_exocet(question.reshape(9, 9).T.ravel().copy())
        assert not holds_exocet(np.where(rng.random(81) < 2 / 3, 0, question).astype(np.uint8))


def test_endurance_of_a_deep_puzzle_ends_at_what_depth_1_leaves():
    solution = solved(DEEP)
    value = endurance(DEEP, solution, 0.0)
    measured = depths(DEEP[None], solution[None])
    assert measured.depth[0] == 2
    assert value >= deep.DEEP > endurance(MIDDLE, solved(MIDDLE), 0.0)
    assert value > measured.left[0] / 2, "the right candidates are not counted: one of two to three in a cell"
    assert endurance(DEEP, solution, value) == value
    assert endurance(DEEP, solution, value + 1 / PASSES) == -1


@pytest.mark.slow
def test_a_lineage_gives_minimal_puzzles_of_depth_2(monkeypatch):
    monkeypatch.setattr(deep, "GENERATION", 12)
    monkeypatch.setattr(deep, "TRIED", 2000)
    monkeypatch.setattr(deep, "SCARCE", 1)
    monkeypatch.setattr(deep, "exocet_puzzle", lambda rng: (ROOT, solved(ROOT)))
    questions, answers = deep.deepen(Chunk(10, 0, 0, 0))
    assert 5 < len(questions) < 22
    again, _ = deep.deepen(Chunk(10, 0, 0, 0))
    assert (again == questions).all()
    assert hashlib.sha256(questions.tobytes()).hexdigest()[:16] == "65369ea85353893e", "sets can be made again"
    assert (depths(questions, answers).depth == 2).all()
    assert len(np.unique(questions, axis=0)) == len(questions)
    both = solve(questions)
    assert (both.counts == 1).all()
    assert (both.solutions == answers).all()
    classes, counts = np.unique(solution_classes(answers), return_counts=True)
    assert len(classes) > 1
    assert counts.max() <= deep.PER_CLASS[1]
    for board in questions:
        spared = np.array([np.where(np.arange(81) == cell, 0, board) for cell in np.flatnonzero(board)])
        assert (solve(spared).counts == 2).all()


def test_solution_classes_are_those_of_symmetries():
    rng = np.random.default_rng(0)
    answers = np.array([solved(board) for board in (DEEP, MIDDLE, EASY)])
    classes = solution_classes(answers)
    assert len(set(classes.tolist())) == 3
    for _ in range(5):
        rows = np.concatenate([3 * band + rng.permutation(3) for band in rng.permutation(3)])
        digits = np.concatenate([[0], rng.permutation(9) + 1])
        moved = digits[answers].reshape(-1, 9, 9)[:, rows].swapaxes(1, 2).reshape(-1, 81)
        assert (solution_classes(moved) == classes).all()
