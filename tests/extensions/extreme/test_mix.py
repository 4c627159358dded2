"""The mix `extreme`: its kinds of puzzles, their shares, and the bytes of a seed."""

import hashlib

import numpy as np
import pytest

from datasets_gen.extensions.extreme import mix
from datasets_gen.extensions.extreme.guesses import guesses
from datasets_gen.parallel import Chunk
from datasets_gen.sudoku import Sudoku
from datasets_gen.sudoku.generate import random_chunk


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
