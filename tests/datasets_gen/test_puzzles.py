"""What holds for every family."""

import numpy as np
import pytest

from datasets_gen.addition import Addition
from datasets_gen.arc import Arc
from datasets_gen.layout import DatasetError, Metadata
from datasets_gen.maze import Maze
from datasets_gen.puzzles import puzzle_of
from datasets_gen.sudoku import Sudoku

FAMILIES = [Sudoku(4), Sudoku(6), Sudoku(9), Maze(7), Addition(), Addition(3, 3, False, True, False), Arc()]


def metadata(puzzle, **changes):
    fields = {
        "pad_id": 0,
        "ignore_label_id": 0,
        "blank_identifier_id": 0,
        "vocab_size": puzzle.vocab_size,
        "seq_len": puzzle.seq_len,
        "num_puzzle_identifiers": 1,
        "total_groups": 0,
        "mean_puzzle_examples": 1.0,
        "sets": ["all"],
        "task": puzzle.task,
    }
    return Metadata(**(fields | changes))


@pytest.mark.parametrize("puzzle", FAMILIES, ids=repr)
def test_a_family_is_found_again_from_what_dataset_json_keeps(puzzle):
    assert puzzle_of(metadata(puzzle)) == puzzle


@pytest.mark.parametrize("puzzle", FAMILIES, ids=repr)
def test_no_examples_are_no_trouble(puzzle):
    none = np.zeros((0, puzzle.seq_len), np.uint8)
    assert puzzle.valid(none, none).shape == (0,)
    assert puzzle.signatures(none, none).shape == (0,)
    assert all(len(values) == 0 for values in puzzle.features(none, none).values())
    assert np.prod(puzzle.grid_shape) == puzzle.seq_len
    if not isinstance(puzzle, Arc):
        assert puzzle.solved(none, none).shape == (0,)


@pytest.mark.parametrize("puzzle", [Sudoku(9), Maze(30), Arc()], ids=repr)
def test_published_shapes_need_no_task(puzzle):
    assert puzzle_of(metadata(puzzle, task={})) == puzzle


@pytest.mark.parametrize(
    "changes",
    [{"task": {"name": "chess"}}, {"task": {}, "seq_len": 17}, {"task": {"name": "sudoku", "size": 7}}],
)
def test_unknown_families_are_refused(changes):
    with pytest.raises(DatasetError):
        puzzle_of(metadata(Sudoku(9), **changes))
