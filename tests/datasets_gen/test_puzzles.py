"""What holds for every family."""

import numpy as np
import pytest

from datasets_gen.extensions.addition.puzzles import Addition
from datasets_gen.layout import DatasetError, Metadata
from datasets_gen.maze import Maze
from datasets_gen.puzzles import puzzle_of
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
    if puzzle.judges:
        assert puzzle.solved(none, none).shape == (0,)


@pytest.mark.parametrize("puzzle", [Sudoku(9), Maze(30)], ids=repr)
def test_published_shapes_need_no_task(puzzle):
    assert puzzle_of(metadata(puzzle, task={})) == puzzle


@pytest.mark.parametrize(
    "changes", [{"task": {"name": "chess"}}, {"task": {}, "seq_len": 17}, {"task": {"name": "sudoku", "size": 7}}]
)
def test_unknown_families_are_refused(changes):
    with pytest.raises(DatasetError):
        puzzle_of(metadata(Sudoku(9), **changes))


SUMS = [
    Addition(), Addition(3), Addition(2, 3), Addition(3, 3, False, True, False), Addition(2, 2, True, True, False),
    Addition(4, 2, False, False, False), Addition(20),
]  # fmt: skip


@pytest.mark.parametrize("puzzle", SUMS, ids=repr)
def test_labels_of_many_sums_are_those_of_each(puzzle):
    rng = np.random.default_rng(0)
    operands = [
        [int(rng.integers(0, 10 ** int(rng.integers(1, min(puzzle.digits, 18) + 1)))) for _ in range(puzzle.operands)]
        for _ in range(200)
    ]
    operands += [[0] * puzzle.operands, [10**puzzle.digits - 1] * puzzle.operands]
    questions, labels = map(np.stack, zip(*map(puzzle.example, operands), strict=True))
    assert (puzzle._labels(questions) == labels).all()
    assert puzzle.solved(questions, labels).all()
    wrong = labels.copy()
    for i, row in enumerate(labels):
        scored = np.flatnonzero(row)
        wrong[i, scored[i % len(scored)]] = 1 + wrong[i, scored[i % len(scored)]] % 10
    assert not puzzle.solved(questions, wrong).any()
    assert "the sum is" in puzzle.mistake(questions[0], wrong[0])
    assert puzzle.mistake(questions[0], labels[0]) is None


@pytest.mark.parametrize("text", ["1++2=", "+1+2=", "1+2+3=", "12345+1=", "1+=", "12=", "1+2"])
def test_a_question_that_is_no_sum_is_refused_among_many(text):
    puzzle = Addition(4)
    question = np.zeros(puzzle.seq_len, np.uint8)
    question[: len(text)] = [puzzle.glyphs.index(character) for character in text]
    good = puzzle.example([3, 4])[0]
    with pytest.raises(DatasetError):
        puzzle.solved(np.stack([good, question]), np.stack([good, question]))


def test_contradictions_are_named():
    board = Sudoku(4).parse("1..1 .... .... ....")
    assert Sudoku(4).contradiction(board) == (
        "row 1 of the question holds 1 twice: at row 1, column 1 and row 1, column 4"
    )
    assert Sudoku(4).contradiction(Sudoku(4).parse("123. ...4 .... ....")) == "no grid has all of these clues"
    assert Sudoku(4).contradiction(Sudoku(4).parse("12.. .... .... ....")) is None
    assert Maze(2).contradiction(Maze(2).parse("S##G")) == "no path leads from S to G"
    assert Maze(2).contradiction(Maze(2).parse("S #G")) is None


def test_a_mistake_is_what_solved_objects_to():
    rng = np.random.default_rng(1)
    for puzzle, tokens in ((Sudoku(4), (2, 6)), (Maze(3), (1, 6))):
        text = "1... .... .... ...." if puzzle == Sudoku(4) else "S.. .#. ..G".replace(" ", "")
        question = puzzle.parse(text)
        answers = rng.integers(*tokens, (400, puzzle.seq_len)).astype(np.uint8)
        answers = np.where((question > 1) if puzzle == Sudoku(4) else (question != 2), question, answers)
        if puzzle == Maze(3):
            answers = np.where((question == 2) & (answers != 5), 2, answers)
        else:
            answers[0] = puzzle.parse("1234341221434321")
        told = np.array([puzzle.mistake(question, answer) is None for answer in answers])
        assert (told == puzzle.solved(np.tile(question, (400, 1)), answers)).all()
        assert told.any()
