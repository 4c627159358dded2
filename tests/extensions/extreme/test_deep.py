"""Deep Sudokus: what generations climb on, and the puzzles that a lineage finds."""

import hashlib
import itertools

import numpy as np
import pytest
from test_depth import HARD, board_of

from datasets_gen.extensions.extreme import deep
from datasets_gen.extensions.extreme.branching import PASSES, endurance
from datasets_gen.extensions.extreme.depth import depths
from datasets_gen.extensions.extreme.neighbours import solution_classes
from datasets_gen.parallel import Chunk
from datasets_gen.sudoku.solver import solve
from datasets_gen.sudoku.tables import geometry

DEEP, MIDDLE, EASY = map(board_of, HARD)
ROOT = board_of("..5..4.8.73...54...9..7...5..3.528....9.8.3..2......6...7.4.9.....1..............")  # of a lineage


def solved(board):
    return solve(board[None]).solutions[0]


def deduced(candidates):
    """Candidates {cell: set} after singles, locked candidates and triples, by definition; None: contradiction."""
    candidates, before = {cell: set(some) for cell, some in candidates.items()}, None
    units = [set(unit) for unit in geometry(9).units.tolist()]
    lines, boxes = units[:18], units[18:]
    while candidates != before:
        before = {cell: set(some) for cell, some in candidates.items()}
        for digit in range(1, 10):
            for unit in units:
                places = {cell for cell in unit if digit in candidates[cell]}
                if not places:
                    return None
                if len(places) == 1:
                    candidates[places.pop()] &= {digit}
                for other in units:
                    if places and places < other and other != unit:
                        for cell in other - places:
                            candidates[cell] -= {digit}
            for first in range(0, 18, 3):  # a block: the digit takes each line once, and each box
                block = lines[first : first + 3]
                across = [box for box in boxes if box <= set().union(*block)]
                ways = [
                    way
                    for way in itertools.permutations(across)
                    if all(
                        any(digit in candidates[c] for c in line & box) for line, box in zip(block, way, strict=True)
                    )
                ]
                for line, box in itertools.product(range(3), across):
                    if all(way[line] is not box for way in ways):
                        for cell in block[line] & box:
                            candidates[cell] -= {digit}
        for cell, some in candidates.items():
            for unit in units:
                if len(some) == 1 and cell in unit:
                    for other in unit - {cell}:
                        candidates[other] -= some
        for line, box in itertools.product(lines, boxes):
            crossing = line & box
            if crossing:
                inside = set().union(*(candidates[cell] for cell in crossing))
                outside = [set().union(*(candidates[cell] for cell in unit - crossing)) for unit in (line, box)]
                forced = inside - (outside[0] & outside[1])
                if len(inside) < 3 or len(forced) > 3:
                    return None
                for cell in crossing if len(forced) == 3 else ():
                    candidates[cell] &= forced
                for cell in (line | box) - crossing if len(inside) == 3 else ():
                    candidates[cell] -= inside
        if not all(candidates.values()):
            return None
    return candidates


def endured(board, solution):
    """The definition: every wrong candidate of an open cell is tested against the state that the pass began with."""
    state, left = {c: {int(d)} if d else set(range(1, 10)) for c, d in enumerate(board)}, []
    for _ in range(PASSES):
        state = deduced(state)
        wrong = [(c, d) for c in state for d in state[c] if d != solution[c]]
        refuted = [(c, d) for c, d in wrong if deduced({**state, c: {d}}) is None]
        left.append(len(wrong) - len(refuted))
        for c, d in refuted:
            state[c] = state[c] - {d}
    return sum(left) / PASSES


@pytest.mark.parametrize("board", [MIDDLE, EASY], ids=["depth 1", "depth 0"])
def test_endurance_is_its_definition(board):
    assert endurance(board, solved(board), 0.0) == endured(board, solved(board))


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
