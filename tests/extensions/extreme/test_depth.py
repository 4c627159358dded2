"""Depth of a Sudoku against its definition and under symmetries; what deep ones grow from."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
import torch

from datasets_gen.extensions.extreme import deep
from datasets_gen.extensions.extreme.branching import PASSES, endurance
from datasets_gen.extensions.extreme.depth import depths
from datasets_gen.extensions.extreme.exocet import exocet_puzzle, holds_exocet
from datasets_gen.extensions.extreme.neighbours import solution_classes
from datasets_gen.importers.tables import read_table
from datasets_gen.parallel import Chunk
from datasets_gen.sudoku import Sudoku
from datasets_gen.sudoku.solver import solve
from datasets_gen.sudoku.tables import geometry
from reason.data import draw_symmetries

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
    candidates, changed = {cell: set(some) for cell, some in candidates.items()}, True
    while changed:
        changed = False
        for unit in units:
            for cell in unit:
                if len(candidates[cell]) == 1:
                    for other in unit:
                        if other != cell and candidates[cell] <= candidates[other]:
                            candidates[other] -= candidates[cell]
                            changed = True
            for digit in range(1, len(unit) + 1):
                places = [cell for cell in unit if digit in candidates[cell]]
                if not places:
                    return None
                if len(places) == 1 and len(candidates[places[0]]) > 1:
                    candidates[places[0]] = {digit}
                    changed = True
            if not all(candidates[cell] for cell in unit):
                return None
    return candidates


def exhausted(candidates, units, level):
    """Candidates after trial and error of a level; None: a contradiction."""
    if level == 0:
        return singles(candidates, units)
    candidates, changed = exhausted(candidates, units, level - 1), True
    while candidates is not None and changed:
        changed = False
        for cell, some in list(candidates.items()):
            for digit in sorted(some) if len(some) > 1 else ():
                if exhausted(candidates | {cell: {digit}}, units, level - 1) is None:
                    candidates = exhausted(candidates | {cell: some - {digit}}, units, level - 1)
                    changed = True
                    break
            if changed:
                break
    return candidates


def naive(board, deepest=2):
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


def test_known_puzzles():
    found = measured(np.array([board_of(text) for text in HARD]))
    assert found.depth.tolist() == list(HARD.values())
    assert (found.left > 0).tolist() == [depth == 2 for depth in HARD.values()]


def test_depth_by_its_definition():
    """Of published puzzles: singles, and one level of trial and error."""
    boards = read_table(FIXTURES / "sudoku.csv", "sudoku").split.inputs[:4] - 1
    found = measured(boards)
    for board, depth, left in zip(boards, found.depth, found.left, strict=True):
        assert naive(board, deepest=1) == (depth, left)


@pytest.mark.slow
def test_two_levels_by_their_definition():
    board = board_of(next(iter(HARD)))
    found = measured(board[None])
    assert naive(board) == (found.depth[0], found.left[0]) == (2, found.left[0])


def test_depth_knows_no_order():
    """Neither moves of cells nor a renaming of digits changes it."""
    question = torch.from_numpy(board_of(next(iter(HARD))).astype(np.int64) + 1)[None].expand(20, -1)
    moved = draw_symmetries(20, Sudoku(9).symmetry, torch.Generator().manual_seed(0))
    found = measured(moved.apply(question).numpy().astype(np.uint8) - 1)
    assert len(np.unique(moved.apply(question).numpy(), axis=0)) == 20
    assert set(found.depth.tolist()) == {2}
    assert len(set(found.left.tolist())) == 1


def test_depth_is_a_statistic_where_every_label_is_full():
    puzzle = Sudoku(9)
    question = np.array([board_of(text) + 1 for text in HARD])
    answer = solve(question - 1).solutions + 1
    assert puzzle.features(question, answer)["depth"].tolist() == list(HARD.values())
    answer[0, 0] = 0
    assert list(puzzle.features(question, answer)) == ["clues"]


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
