"""A puzzle's structure as data."""

import json

import numpy as np
import pytest

from datasets_gen.__main__ import main
from datasets_gen.layout import DatasetError, Metadata, read_metadata
from datasets_gen.maze import Maze
from datasets_gen.puzzles import structure_of
from datasets_gen.structure import Structure
from datasets_gen.sudoku import Sudoku
from datasets_gen.sudoku.tables import geometry


@pytest.mark.parametrize("size", [4, 6, 9])
def test_the_groups_of_a_sudoku_are_its_units(size):
    structure = Sudoku(size).structure
    found = {
        tuple(np.flatnonzero(structure.partition(name) == group)) for name in structure.groups for group in range(size)
    }
    assert found == {tuple(map(int, unit)) for unit in geometry(size).units}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"grid": (2, 4)}, "grid 2x4"),
        ({"groups": {"row": (0, 0, 1)}}, "groups.row numbers 3 cells"),
        ({"groups": {"row": (0, 0, 2, 2, 0, 0)}}, "without a gap"),
        ({"symbols": (1, 9)}, "token 9 is outside the vocabulary"),
        ({"symbols": (2, 1)}, "ascending"),
        ({"symbols": (1, 2), "outside": 2}, "outside=2 is one of the symbols"),
    ],
)
def test_a_structure_that_contradicts_its_set_is_refused(changes, words):
    assert words in Structure(**changes).fault(6, 4)


def test_a_set_carries_its_structure_and_may_declare_its_own(tmp_path):
    assert main(["sudoku", "--size", "4", "--train", "3", "--test", "1", "--output-dir", str(tmp_path / "set")]) == 0
    path = tmp_path / "set" / "train" / "dataset.json"
    assert structure_of(read_metadata(tmp_path / "set", "train")) == Sudoku(4).structure
    stored = json.loads(path.read_text())
    own = {"groups": {"ring": [0, 0, 0, 0] * 3 + [1] * 4}}
    path.write_text(json.dumps(stored | {"structure": own}))
    assert structure_of(read_metadata(tmp_path / "set", "train")).cells == 16
    path.write_text(json.dumps(stored | {"structure": {"grid": [3, 3]}}))
    with pytest.raises(DatasetError, match="grid 3x3 does not hold the 16 cells"):
        read_metadata(tmp_path / "set", "train")


def test_a_set_without_a_structure_has_that_of_its_family_or_none():
    numbers = dict.fromkeys(("pad_id", "ignore_label_id", "blank_identifier_id", "total_groups"), 0)
    sizes = {"vocab_size": 6, "seq_len": 900, "num_puzzle_identifiers": 1, "mean_puzzle_examples": 1.0}
    published = Metadata(**numbers, **sizes, sets=["all"])
    assert structure_of(published) == Maze(30).structure
    assert structure_of(published.model_copy(update={"seq_len": 17})) == Structure()
