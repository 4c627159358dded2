"""Depth of a Sudoku against its definition and under symmetries."""

from pathlib import Path

import numpy as np
import pytest
import torch

from datasets_gen.extensions.extreme.depth import depths
from datasets_gen.importers.tables import read_table
from datasets_gen.sudoku import Sudoku
from datasets_gen.sudoku.solver import solve
from datasets_gen.sudoku.tables import geometry
from reason.data.augmentation import draw_symmetries

FIXTURES = Path(__file__).parents[2] / "datasets_gen/fixtures"
HARD = {  # puzzles of every depth that people publish
    "8..........36......7..9.2...5...7.......457.....1...3...1....68..85...1..9....4..": 2,
    "7.....4...2..7..8...3..8.799..5..3...6..2..9...1.97..6...3..9...3..4..6...9..1.35": 1,
    "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79": 0,
}


def board_of(text):
    return np.array([0 if c == "." else int(c) for c in text], np.uint8)


def singles(candidates, units):
    """Candidates {cell: set} after naked and hidden singles; None: a contradiction."""
    candidates, before = {cell: set(some) for cell, some in candidates.items()}, None
    while candidates != before:
        before = {cell: set(some) for cell, some in candidates.items()}
        for unit in units:
            for cell in unit:
                for other in unit if len(candidates[cell]) == 1 else ():
                    candidates[other] -= candidates[cell] if other != cell else set()
            for digit in range(1, len(unit) + 1):
                places = [cell for cell in unit if digit in candidates[cell]]
                if len(places) == 1:
                    candidates[places[0]] = {digit}
                elif not places:
                    return None
        if not all(candidates.values()):
            return None
    return candidates


def exhausted(candidates, units, level):
    """Candidates after trial and error of a level; None: a contradiction."""
    if level == 0:
        return singles(candidates, units)
    candidates, before = exhausted(candidates, units, level - 1), None
    while candidates not in (None, before):
        before = candidates
        for cell, digit in [(cell, digit) for cell, some in before.items() for digit in some if len(some) > 1]:
            if candidates and exhausted(candidates | {cell: {digit}}, units, level - 1) is None:
                candidates = exhausted(candidates | {cell: candidates[cell] - {digit}}, units, level - 1)
    return candidates


def naive(board, deepest):
    units = geometry(round(len(board) ** 0.5)).units.tolist()
    given = {cell: {int(d)} if d else set(range(1, len(units[0]) + 1)) for cell, d in enumerate(board)}
    left = 0
    for level in range(deepest + 1):
        found = exhausted(given, units, level)
        if all(len(some) == 1 for some in found.values()):
            return level, left
        left = sum(len(some) for some in found.values() if len(some) > 1) if level == 1 else left
    return deepest + 1, left


def measured(boards):
    return depths(boards, solve(boards).solutions)


@pytest.mark.parametrize("deepest", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_depth_by_its_definition(deepest):
    published = read_table(FIXTURES / "sudoku.csv", "sudoku").split.inputs[:4] - 1
    boards = published if deepest == 1 else board_of(next(iter(HARD)))[None]
    found = measured(boards)
    for board, depth, left in zip(boards, found.depth, found.left, strict=True):
        assert naive(board, deepest) == (depth, left)


def test_known_puzzles_have_their_depth_which_knows_no_order_and_is_a_statistic():
    question = torch.from_numpy(board_of(next(iter(HARD))).astype(np.int64) + 1)[None].expand(20, -1)
    moved = draw_symmetries(20, Sudoku(9).symmetry, torch.Generator().manual_seed(0))
    found = measured(moved.apply(question).numpy().astype(np.uint8) - 1)
    assert len(np.unique(moved.apply(question).numpy(), axis=0)) == 20
    assert set(found.depth.tolist()) == {2}
    assert len(set(found.left.tolist())) == 1
    boards, puzzle = np.array([board_of(text) for text in HARD]), Sudoku(9)
    found = measured(boards)
    assert found.depth.tolist() == list(HARD.values())
    assert (found.left > 0).tolist() == [depth == 2 for depth in HARD.values()]
    question, answer = boards + 1, solve(boards).solutions + 1
    assert puzzle.features(question, answer)["depth"].tolist() == list(HARD.values())
    wrong = answer.copy()
    answer[0, 0] = 0
    assert list(puzzle.features(question, answer)) == ["clues"]
    question[0, :2] = wrong[0, :2] = 6  # no solution: trial and error would leave its arrays
    assert list(puzzle.features(question, wrong)) == ["clues"]
