"""The mix `extreme`: its solver, neighbours, exocets, a lineage of deep puzzles, shares and splits, a seed's bytes."""

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.neighbours import boards, digits, main
from benchmarks.real_sudoku import imported, write
from datasets_gen.extensions.extreme import mix
from datasets_gen.extensions.extreme.depth import depths
from datasets_gen.extensions.extreme.exocet import exocet_puzzle, holds_exocet
from datasets_gen.extensions.extreme.neighbours import FEW, few_clues, neighbour, solution_classes
from datasets_gen.extensions.extreme.solver import endurance, search, solutions
from datasets_gen.parallel import Chunk, seeded
from datasets_gen.sudoku import Sudoku
from datasets_gen.sudoku.solver import full_grid, solve, thin

DEEP, MIDDLE, FOUNDER = (
    np.array([int(c) for c in text.replace(".", "0")], np.uint8)
    for text in (
        "8..........36......7..9.2...5...7.......457.....1...3...1....68..85...1..9....4..",  # Inkala 2012
        "7.....4...2..7..8...3..8.799..5..3...6..2..9...1.97..6...3..9...3..4..6...9..1.35",
        "..1.6..2..3....8..98.2....1.639..2.........5...917.6......4...........7...86..1..",  # of a lineage
    )
)


def solved(board):
    return solve(board[None]).solutions[0]


def is_minimal(question, answer):
    """One solution, and two where a clue is missing."""
    clues = np.flatnonzero(question)
    without = np.tile(question, (len(clues), 1))
    without[np.arange(len(clues)), clues] = 0
    found = solve(question[None])
    return found.counts[0] == 1 and (found.solutions[0] == answer).all() and (solve(without).counts == 2).all()


@settings(max_examples=60)
@given(st.integers(0, 2**32))
def test_as_many_solutions_are_found_as_by_the_other_solver(seed):
    rng = seeded(seed)
    board = thin(full_grid(9, rng), rng)
    clues = np.flatnonzero(board)
    board[clues[: 1 + seed % 2]] = 0  # minimal: several solutions now
    if seed % 3 == 0:
        board[clues[2]] = board[clues[2]] % 9 + 1  # often a contradiction
    (once, twice), complete = solutions(board)
    count, found = solve(board[None], limit=2000).counts[0], np.zeros((2, 9, 3), np.uint32)
    assert complete
    assert search(board, 1, 10**6, found)[0] == min(count, 1)
    assert once.any() == (count > 0)
    assert twice.any() == (count > 1)
    assert (twice <= once).all()


def test_the_digits_of_exactly_one_solution_are_the_clues_that_leave_one():
    rng = seeded(9, 1)
    board = thin(full_grid(9, rng), rng)
    board[np.flatnonzero(board)[0]] = 0
    tried = [(cell, digit) for cell in np.flatnonzero(board == 0) for digit in range(1, 10)]
    filled = np.array([np.where(np.arange(81) == cell, digit, board) for cell, digit in tried])
    (once, twice), _ = solutions(board)
    last = np.argwhere(once & ~twice) + np.array([0, 1])
    assert last.tolist() == [list(tried[i]) for i in np.flatnonzero(solve(filled).counts == 1)]
    assert not solutions(np.zeros_like(board), cap=3)[1]  # given up


def test_endurance_tells_a_deep_puzzle_and_is_above_what_depth_1_leaves():
    value = endurance(DEEP, solved(DEEP))
    assert value >= mix.DEEP > endurance(MIDDLE, solved(MIDDLE))
    left = depths(DEEP[None], solved(DEEP)[None]).left[0]
    assert value > left / 2, "the right candidates are not counted: one of two to three in a cell"


def test_neighbours_share_all_but_a_few_clues_and_walks_reach_few():
    rng = seeded(0)
    found = [child for _ in range(60) if (child := neighbour(DEEP, rng)) is not None]
    assert len(found) > 20
    for question, answer in found:
        assert is_minimal(question, answer)
        assert ((question == DEEP) & (question > 0)).sum() >= (question > 0).sum() - 2, "two clues are new at most"
    assert any((question != DEEP).any() for question, _ in found)
    walks = [few_clues(4, seeded(seed)) for seed in range(4)]
    assert sum(map(len, walks)) > 4
    for found in walks:
        assert all(is_minimal(*puzzle) and 17 <= (puzzle[0] > 0).sum() <= FEW for puzzle in found)
        assert len({solution_classes(answer[None])[0] for _, answer in found}) == len(found) <= 4


def test_an_exocet_puzzle_has_one_solution_and_needs_its_clues():
    """Without two thirds of its clues no exocet is left; the digits of the base stand in the targets."""
    rng = seeded(0)
    for question, answer in (exocet_puzzle(rng) for _ in range(6)):
        assert Sudoku(9).fault(question + 1, answer + 1) is None
        assert holds_exocet(question)
        assert answer[[0, 1]].tolist() == answer[[12, 24]].tolist()
        assert not holds_exocet(np.where(rng.random(81) < 2 / 3, 0, question).astype(np.uint8))


@pytest.fixture
def shallow(monkeypatch):
    """Random puzzles in place of deep ones, which take a minute, and of few clues."""
    monkeypatch.setattr(mix, "deepen", mix.random_puzzles)
    monkeypatch.setattr(mix, "few_clues", lambda count, rng: [*map(tuple, mix.random_puzzles(count, rng))])


def test_the_shares_hold_from_the_first_puzzles_on(shallow, monkeypatch):
    monkeypatch.setattr(mix, "moved", lambda puzzles, rng: np.zeros_like(puzzles))  # marks them
    monkeypatch.setattr(mix, "signatures", lambda questions, answers: questions.any(1))
    deep = ~np.array([signature for signature, _ in mix.mixed_chunk(Chunk({"test": 73}, 0, 1, 0))])
    assert (len(deep), deep.sum()) == (100, 73)
    counts = np.arange(1, 101)
    assert np.abs(deep.cumsum() - 0.73 * counts).max() <= 1.5


def test_splits_are_disjoint_and_the_same_whatever_else_is_asked(shallow):
    counts = {"train": 40, "test": 20, "validation": 10}
    splits = mix.mixed_splits(counts, seed=3, processes=1)
    assert {name: len(split.inputs) for name, split in splits.items()} == counts
    joined = [np.concatenate([getattr(split, key) for split in splits.values()]) for key in ("inputs", "labels")]
    assert len(np.unique(Sudoku(9).signatures(*joined))) == 70
    assert Sudoku(9).valid(*joined).all()
    alone = mix.mixed_splits({"train": 40, "test": 20}, seed=3, processes=1)
    assert all((alone[name].inputs == splits[name].inputs).all() for name in alone)


def test_a_lineage_gives_minimal_puzzles_of_depth_2(monkeypatch):
    """From one deep founder: to find it takes a minute."""
    monkeypatch.setattr(mix, "FOUNDERS", 1)
    monkeypatch.setattr(mix, "exocet_puzzle", lambda rng: (FOUNDER, solved(FOUNDER)))
    puzzles = mix.deepen(12, seeded(0))
    assert hashlib.sha256(puzzles.tobytes()).hexdigest()[:16] == "d990ac6bc4cd6337", "sets can be made again"
    questions, answers = puzzles.swapaxes(0, 1)
    assert len(puzzles) == 12
    assert (depths(questions, answers).depth == 2).all()
    assert all(is_minimal(*puzzle) and holds_exocet(puzzle[0]) for puzzle in puzzles)
    assert len(np.unique(questions, axis=0)) == len(puzzles)
    _, counts = np.unique(solution_classes(answers), return_counts=True)
    assert len(counts) > 1
    assert counts.max() <= mix.PER_CLASS


def test_the_easy_puzzles_of_a_seed_stay_the_same_and_moves_keep_their_class():
    made = [mix.random_puzzles(8, seeded(0)), np.array(few_clues(4, seeded(0))), np.array(exocet_puzzle(seeded(0)))]
    assert hashlib.sha256(b"".join(each.tobytes() for each in made)).hexdigest()[:16] == "c53a05ca387af5fb"
    classes = solution_classes(np.stack([solved(DEEP), solved(MIDDLE), full_grid(9, seeded(1))]))
    assert len(set(classes.tolist())) == 3
    puzzle = np.stack([DEEP, solved(DEEP)])
    questions, answers = mix.moved(np.tile(puzzle, (20, 1, 1)), seeded(0)).swapaxes(0, 1)
    assert len(np.unique(questions, axis=0)) == 20
    assert Sudoku(9).valid(questions + 1, answers + 1).all()
    assert len(set(Sudoku(9).signatures(questions + 1, answers + 1).tolist())) == 1
    assert set(solution_classes(answers).tolist()) == {classes[0]}


def test_a_set_of_neighbours_is_deep_and_apart_from_barred_classes(tmp_path, monkeypatch):
    row = {"source": "", "question": digits(DEEP), "answer": digits(solved(DEEP)), "rating": "0"}
    given, near = str(tmp_path / "set"), str(tmp_path / "near")
    imported([write(tmp_path / "train.csv", [row])], tmp_path / "set")
    monkeypatch.setattr("sys.argv", ["neighbours", given, "--each", "8", "--apart", given, "--output-dir", near])
    main()
    questions, answers = boards(tmp_path / "near", "train")
    found = depths(questions, answers).depth
    assert set(found) == {1, 2}
    assert (found == 2).sum() <= 8
    assert (found == 1).sum() <= 2
    assert set(solution_classes(answers).tolist()).isdisjoint(solution_classes(solved(DEEP)[None]).tolist())
