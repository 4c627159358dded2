"""The mix `extreme`: the solver that counts guesses, neighbours, kinds of puzzles and their shares, a seed's bytes."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.neighbours import boards, digits, main
from benchmarks.real_sudoku import imported, write
from datasets_gen.extensions.extreme import mix
from datasets_gen.extensions.extreme.branching import BAND, CELL, MIXED, NO_CAP, NOTHING, completions, search
from datasets_gen.extensions.extreme.depth import depths
from datasets_gen.extensions.extreme.guesses import guesses, shuffles
from datasets_gen.extensions.extreme.neighbours import FEW, neighbour, of_few_clues, solution_classes
from datasets_gen.parallel import Chunk, seeded
from datasets_gen.sudoku import Sudoku
from datasets_gen.sudoku.generate import random_chunk
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
    for cells, renamed, _ in shuffles():
        moved = renamed[answer[cells]]
        assert Sudoku(9).mistake(moved + 1, moved + 1) is None


def test_no_guess_is_counted_where_deduction_solves():
    easy, hard = (Sudoku(9).parse(text) - 1 for text in (EASY, HARD))
    counted = guesses(np.array([easy, hard]))
    assert counted[0] == 0
    assert counted[1] > 5
    assert guesses(hard[None])[0] == counted[1]


CLUES = "800000000003600000070090200050007000000045700000100030001000068008500010090000400"
DEEP = np.array([int(c) for c in CLUES], np.uint8)


def test_neighbours_are_minimal_and_share_all_but_a_few_clues() -> None:
    rng = np.random.default_rng(0)
    found = [child for _ in range(60) if (child := neighbour(DEEP, rng)) is not None]
    assert len(found) > 20
    for question, answer in found:
        is_minimal(question, answer)
        assert ((question == DEEP) & (question > 0)).sum() >= (question > 0).sum() - 2, "two clues are new at most"
    assert any((question != DEEP).any() for question, _ in found)


def is_minimal(question: np.ndarray, answer: np.ndarray) -> None:
    solved = solve(question[None])
    assert solved.counts[0] == 1
    assert (solved.solutions[0] == answer).all()
    clues = np.flatnonzero(question)
    without = np.tile(question, (len(clues), 1))
    without[np.arange(len(clues)), clues] = 0
    assert (solve(without).counts == 2).all(), "a clue is not needed"


def test_walks_reach_few_clues_and_solutions_of_different_classes() -> None:
    walks = [of_few_clues(4, np.random.default_rng(seed)) for seed in range(4)]
    assert sum(map(len, walks)) > 4
    for found in filter(None, walks):
        for question, answer in found:
            is_minimal(question, answer)
            assert 17 <= (question > 0).sum() <= FEW
        classes = solution_classes(np.array([answer for _, answer in found]))
        assert len(np.unique(classes)) == len(found) <= 4


def test_a_set_of_neighbours_is_deep_and_apart_from_barred_classes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = solve(DEEP[None]).solutions[0]
    row = {"source": "", "question": digits(DEEP), "answer": digits(answer), "rating": "0"}

    def made(name: str, *more: str) -> np.ndarray:
        words = [str(tmp_path / "set"), "--each", "8", *more, "--output-dir", str(tmp_path / name)]
        monkeypatch.setattr("sys.argv", ["neighbours", *words])
        main()
        return boards(tmp_path / name, "train")[1]

    imported([write(tmp_path / "train.csv", [row])], tmp_path / "set")
    answers = made("near")
    questions, _ = boards(tmp_path / "near", "train")
    found = depths(questions, answers).depth
    assert set(found) == {1, 2}
    assert (found == 2).sum() <= 8
    assert (found == 1).sum() <= 2
    classes = set(solution_classes(answers).tolist())
    assert len(classes) > 1
    barred = {"source": "", "question": digits(questions[0]), "answer": digits(answers[0]), "rating": "0"}
    imported([write(tmp_path / "train.csv", [barred])], tmp_path / "barred")
    kept = solution_classes(made("apart", "--apart", str(tmp_path / "barred")))
    assert set(kept.tolist()) == classes - set(solution_classes(answers[:1]).tolist())


@pytest.fixture(scope="module")
def easy():
    return mix.easy_puzzles(Chunk(0, 0, 0, 0))


@pytest.fixture
def shallow(monkeypatch):
    """Random puzzles in place of deep ones, which take a minute."""

    def random(task):
        return [mix.Found(mix.DEEP, *found) for found in random_chunk(task._replace(kind=(9, None)))]

    monkeypatch.setattr(mix, "deep_puzzles", random)
    monkeypatch.setattr(mix, "WALKS", 0)


@pytest.mark.parametrize("total", [1, 2, 7, 100, 999, 1000, 5000])
def test_quotas_are_the_mix_to_within_one(total):
    wanted = mix.quotas(total)
    assert wanted.sum() == total
    assert np.abs(wanted - total * np.array(mix.SHARES)).max() < 1


def test_easy_puzzles_are_of_the_kinds_that_they_state(easy):
    kinds = np.array([found.kind for found in easy])
    questions, answers = (np.array([found.puzzle[k] for found in easy]) for k in (0, 1))
    assert Sudoku(9).valid(questions + 1, answers + 1).all()
    assert (Sudoku(9).signatures(questions + 1, answers + 1) == [found.signature for found in easy]).all()
    needed = guesses(questions)
    assert ((needed == 0) == (kinds == mix.NO_GUESS)).all()
    assert needed.max() < mix.FEW
    clues = (questions > 0).sum(1)
    assert clues[kinds == mix.NO_GUESS].max() > clues[kinds == mix.FEW_GUESSES].max()
    assert clues.min() <= 19


def test_the_puzzles_of_a_seed_stay_the_same(easy):
    """The sets of docs/results can be made again."""
    digest = hashlib.sha256(b"".join(found.puzzle[0].tobytes() for found in easy)).hexdigest()
    assert digest[:16] == "d16160ca6e8bdfca"


def test_the_mix_is_met_and_splits_are_disjoint(shallow, monkeypatch):
    counts = {"train": 40, "test": 20, "validation": 10}
    splits = mix.mixed_splits(counts, seed=3, processes=1)
    assert {name: len(split.inputs) for name, split in splits.items()} == counts
    joined = [np.concatenate([getattr(split, key) for split in splits.values()]) for key in ("inputs", "labels")]
    assert len(np.unique(Sudoku(9).signatures(*joined))) == 70
    assert Sudoku(9).valid(*joined).all()
    alone = mix.mixed_splits({"train": 40, "test": 20}, seed=3, processes=1)
    assert all((alone[name].inputs == splits[name].inputs).all() for name in alone)
    deep = {found.puzzle[0].tobytes() for number in range(2) for found in mix.deep_puzzles(Chunk(0, 3, 0, number))}
    assert sum((board - 1).tobytes() in deep for board in splits["train"].inputs) >= mix.quotas(40)[mix.DEEP]
