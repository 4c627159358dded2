"""Neighbours of a Sudoku: one solution, minimal, near; and sets of them, which keep barred solution classes out."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.neighbours import boards, digits, main
from benchmarks.real_sudoku import imported, write
from datasets_gen.extensions.extreme.depth import depths
from datasets_gen.extensions.extreme.neighbours import FEW, neighbour, of_few_clues, solution_classes
from datasets_gen.sudoku.solver import solve

HARD = "800000000003600000070090200050007000000045700000100030001000068008500010090000400"
DEEP = np.array([int(c) for c in HARD], np.uint8)


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
