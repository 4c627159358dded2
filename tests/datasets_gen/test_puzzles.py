"""What holds for every family, and a puzzle's structure as data."""

import json

import numpy as np
import pytest

from datasets_gen.extensions.addition.puzzles import Addition
from datasets_gen.layout import DatasetError, Metadata, Split, read_metadata, write_dataset
from datasets_gen.maze import Maze
from datasets_gen.puzzles import puzzle_of, structure_of
from datasets_gen.structure import Structure
from datasets_gen.sudoku import Sudoku

FAMILIES = [Sudoku(4), Sudoku(6), Sudoku(9), Maze(7), Addition(), Addition(3, 3, False, True, False)]


def metadata(puzzle, **changes):
    fields = dict.fromkeys(("pad_id", "ignore_label_id", "blank_identifier_id", "total_groups"), 0)
    fields |= {"num_puzzle_identifiers": 1, "mean_puzzle_examples": 1.0, "sets": ["all"]}
    own = {"vocab_size": puzzle.vocab_size, "seq_len": puzzle.seq_len, "task": puzzle.task}
    return Metadata(**fields | own | changes)


@pytest.mark.parametrize("puzzle", FAMILIES, ids=repr)
def test_a_family_is_whole(puzzle):
    """Found again from what dataset.json keeps, drawn, of a structure that fits; no examples are no trouble."""
    assert puzzle_of(metadata(puzzle)) == puzzle
    assert len(puzzle.glyphs) >= puzzle.vocab_size
    assert np.prod(puzzle.grid_shape) == puzzle.seq_len
    if puzzle.box_shape:
        assert not (np.array(puzzle.grid_shape) % puzzle.box_shape).any()
    structure = puzzle.structure
    assert structure.fault(puzzle.seq_len, puzzle.vocab_size) is None
    assert structure.grid == puzzle.grid_shape
    assert Structure.model_validate_json(structure.model_dump_json()) == structure
    none = np.zeros((0, puzzle.seq_len), np.uint8)
    assert puzzle.valid(none, none).shape == (0,)
    assert puzzle.signatures(none, none).shape == (0,)
    assert all(len(values) == 0 for values in puzzle.features(none, none).values())
    if puzzle.has_rules:
        assert puzzle.solved(none, none).shape == (0,)


@pytest.mark.parametrize("puzzle", [Sudoku(9), Maze(30)], ids=repr)
def test_published_shapes_need_no_task(puzzle):
    assert puzzle_of(metadata(puzzle, task={})) == puzzle
    assert structure_of(metadata(puzzle, task={})) == puzzle.structure
    assert structure_of(metadata(puzzle, task={}, seq_len=17)) == Structure()


@pytest.mark.parametrize(("changes", "words"), [
    ({"grid": (2, 4)}, "grid 2x4"),
    ({"groups": {"row": (0, 0, 1)}}, "groups.row must number the groups of 6 cells"),
    ({"groups": {"row": (0, 0, 2, 2, 0, 0)}}, "without a gap"),
    ({"symbols": (1, 9)}, "different tokens 0..3"),
    ({"symbols": (2, 1)}, "ascending"),
    ({"symbols": (1, 2), "outside": 2}, "different tokens"),
])  # fmt: skip
def test_a_structure_that_contradicts_its_set_is_refused(changes, words):
    assert words in Structure(**changes).fault(6, 4)


def test_a_set_carries_its_structure_and_may_declare_its_own(tmp_path):
    split = Split.of_puzzles(*np.ones((2, 1, 16), np.uint8))
    for name, structure in (("family", Sudoku(4).structure), ("own", Structure(groups={"ring": (0,) * 12 + (1,) * 4}))):
        write_dataset(tmp_path / name, {"train": split}, task=Sudoku(4).task, vocab_size=6, structure=structure)
        assert structure_of(read_metadata(tmp_path / name, "train")) == structure
    path = tmp_path / "own/train/dataset.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"structure": {"grid": [3, 3]}}))
    with pytest.raises(DatasetError, match="grid 3x3 does not have 16 cells"):
        read_metadata(tmp_path / "own", "train")


@pytest.mark.parametrize(("puzzle", "text", "solution"), [
    (Sudoku(4), "1... .... .... ....", "1234341221434321"),
    (Maze(3), "S...#...G", "So..#o..G"),
], ids=repr)  # fmt: skip
def test_a_mistake_is_what_solved_objects_to(puzzle, text, solution):
    question, answer = puzzle.parse(text), puzzle.parse(solution)
    rng = np.random.default_rng(1)
    answers = np.tile(answer, (400, 1))
    drawn = rng.integers(2, puzzle.vocab_size, answers.shape).astype(np.uint8)
    answers = np.where(rng.random(answers.shape) < 0.05, drawn, answers)
    told = np.array([puzzle.mistake(question, one) is None for one in answers])
    assert (told == puzzle.solved(np.tile(question, (400, 1)), answers)).all()
    assert set(told) == {False, True}
