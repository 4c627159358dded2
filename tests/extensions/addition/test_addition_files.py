"""Sums of STARS' files, and the rules of many sums at once."""

import codecs

import numpy as np
import pytest

from datasets_gen.extensions.addition.puzzles import Addition
from datasets_gen.layout import DatasetError


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"num1": 1.5, "num2": 2.5, "sum": 4}', "num1 is 1.5"),
        ('{"num1": 1, "num2": Infinity, "sum": 3}', "num2 is inf"),
        ('{"num1": "1", "num2": 1, "sum": 2}', "num1 is '1'"),
        ('{"num1": -1, "num2": 1, "sum": 0}', "num1 is -1"),
        ('{"num1": [[1]], "num2": 1, "sum": 0}', "num1 is a list"),
        ('{"num1": 1, "num2": 1, "sum": 2, "answer": 3}', "1 + 1 is not 3"),
        ('{"num1": 1, "num2": 1, "sum": 2, "expression": "1 + 2"}', "expression '1 + 2' is not num1 + num2"),
        ('{"num1": 1, "num2": 1}', "neither sum nor answer"),
        ('{"num1": 1, "sum": 1}', "no num2"),
        ('{"num1": 1,', "no JSON"),
        (f'{{"num1": 1{"0" * 1000}, "num2": 1, "sum": 1{"0" * 999}1}}', "more than 1000 digits"),
        ("[1, 2]", "no object"),
        ("[" * 100_000, "no JSON"),
    ],
)
def test_faulty_sums(tmp_path, refused, line, message):
    path = tmp_path / "file.jsonl"
    path.write_text('{"num1": 1, "num2": 2, "sum": 3}\n\n' + line + "\n")
    refused(["import", "addition-jsonl", path, "--output-dir", tmp_path / "set"], f"{path}, line 3", message)


def test_sums_as_the_code_of_stars_reads_them(made, tmp_path):
    rows = '{"num1": 95, "num2": 17, "expression": "95 + 17", "answer": 112}\r\n\r\n'
    (tmp_path / "file.jsonl").write_bytes(codecs.BOM_UTF8 + rows.encode())
    made("import addition-jsonl", tmp_path / "file.jsonl")


SUMS = [
    Addition(),
    Addition(2, 3),
    Addition(2, 2, True, True, False),
    Addition(4, 2, False, False, False),
    Addition(20),
]


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
