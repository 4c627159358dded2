"""Sums as text."""

import codecs

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasets_gen.__main__ import main
from datasets_gen.extensions.addition.puzzles import Addition
from datasets_gen.layout import DatasetError, read_split
from datasets_gen.puzzles import puzzle_of

FAMILIES = st.builds(Addition, st.integers(1, 6), st.integers(2, 4), st.booleans(), st.booleans(), st.booleans())


def test_the_layout_of_stars():
    puzzle = Addition()
    question, label = puzzle.example([1750, 4733])
    assert puzzle.draw(question) == "1750+4733= 3846§"
    assert puzzle.vocab_size == 15
    text = "1750+4733= 3846§"
    for cell, token in enumerate(label):
        expected = text[cell + 1] if 9 <= cell < len(text) - 1 else "·"  # from the `=`, whose label is the space
        assert token == "·0123456789+= §".index(expected)
    assert puzzle.draw(label, question) == text
    wrong = np.where(label == 13, 1, label)
    assert not puzzle.solved(question[None], wrong[None])[0]
    assert puzzle.mistake(question, wrong).startswith("the answer is '03846§', the sum is ' 3846§'")


@given(FAMILIES, st.data())
def test_questions_labels_and_rules_agree(puzzle, data):
    number = st.integers(0, 10**puzzle.digits - 1)
    operands = data.draw(st.lists(number, min_size=puzzle.operands, max_size=puzzle.operands))
    question, label = puzzle.example(operands)
    assert question.shape == label.shape == (puzzle.seq_len,)
    assert question.max() < puzzle.vocab_size
    assert puzzle.read(question) == operands
    assert puzzle.fault(question, label) is None
    assert puzzle.valid(question[None], label[None])[0]
    assert puzzle.solved(question[None], label[None])[0]
    scored = label[label > 0]
    if puzzle.causal:
        assert scored[0] == 13  # the space after `=`
        scored = scored[1:]
    digits = "".join(str(token - 1) for token in scored[:-1])
    assert scored[-1] == 14
    assert int(digits[::-1] if puzzle.reverse else digits) == sum(operands)
    if puzzle.causal:  # the label of every scored cell is the next input, where there is one
        cells = np.flatnonzero(label[:-1])
        assert (question[cells + 1] == label[cells]).all()
    else:
        assert (question[label > 0] == 15).all()
        assert (question == 15).sum() == puzzle.width + 1  # as many for every sum: its length is not given away
    wrong = label.copy()
    cell = np.flatnonzero(label)[0]
    wrong[cell] = wrong[cell] % 10 + 1
    assert f"in cell {cell}" in puzzle.fault(question, wrong)
    assert not puzzle.solved(question[None], wrong[None])[0]
    typed = puzzle.parse("+".join(map(str, operands)) + "=")
    assert puzzle.read(typed) == operands
    turned, _ = puzzle.example(operands[::-1])
    assert puzzle.signatures(turned[None], label[None]) == puzzle.signatures(question[None], label[None])


def test_sets_are_disjoint_seeded_and_verified(made):
    words = "addition --train 300 --validation 50 --test 100 --seed"
    one, two, three = (read_split(made(words, seed, name=f"{i}"), "train") for i, seed in enumerate((0, 0, 1)))
    assert (one[1].inputs == two[1].inputs).all()
    assert (one[1].inputs != three[1].inputs).any()
    assert one[0].task["labels"].startswith("shifted")
    assert puzzle_of(one[0]) == Addition()
    assert main(["show", str(made(words, 0, name="shown"))]) == 0
    operands = np.array([Addition().read(question) for question in one[1].inputs])
    assert operands.min() >= 1000
    assert operands.max() <= 9999


def test_lengths_of_splits_and_of_operands_may_differ(made):
    directory = made("addition --digits 3 --test-digits 6 --train 300 --test 300 --no-reverse --zero-pad")
    train, test = (read_split(directory, name)[1] for name in ("train", "test"))
    assert set(train.ratings) == {1, 2, 3}
    assert set(test.ratings) == {1, 2, 3, 4, 5, 6}
    assert train.inputs.shape[1] == test.inputs.shape[1] == Addition(6).seq_len
    directory = made("addition --digits 3 --min-digits 1 --mixed-digits --train 400 --test 100", name="mixed")
    meta, split = read_split(directory, "train")
    puzzle = puzzle_of(meta)
    digits = np.array([[len(str(term)) for term in puzzle.read(question)] for question in split.inputs])
    assert {tuple(row) for row in digits.tolist()} == {(a, b) for a in (1, 2, 3) for b in (1, 2, 3)}
    assert (split.ratings == digits.max(1)).all()
    assert "--min-digits 1 --mixed-digits" in meta.provenance["command"]


@pytest.mark.parametrize(("flags", "message"), [
    ("--digits 1 --train 50", "sums in a row equal earlier ones, after 55 different ones: request fewer"),
    ("--digits 0", "at least 2 operands and 1 digit"),
    ("--operands 1", "at least 2 operands and 1 digit"),
    ("--min-digits 5", "choose from 1 to 4"),
    *((f"--noise {noise}", "from 0 to 0.9") for noise in ("-0.1", "0.95", "nan")),
])  # fmt: skip
def test_impossible_sums_are_refused(tmp_path, refused, flags, message):
    refused(["addition", *flags.split(), "--output-dir", tmp_path / "set"], message)


@pytest.mark.parametrize("text", [
    "12", "12345+1=", "1+2+3=", "a+1=", "+1=", "1 2+3", "1+2=3+4", "1+2=3 4", "1+2=x", "1+2=3=3", "1+٣", "1+2\u00a0",
])  # fmt: skip
def test_a_mistyped_sum_is_refused(text):
    with pytest.raises(DatasetError):
        Addition().parse(text)


@pytest.mark.parametrize("text", [" 12 + 34\n", "12+34=", "12+34= ___", "12+34=46", "12+34= 64§", "012+34 ="])
def test_a_sum_is_read_with_its_spaces_and_without_its_answer(text):
    question = Addition(3, causal=False).parse(text)
    assert (question == Addition(3, causal=False).example([12, 34])[0]).all()


@pytest.mark.parametrize("blank", [[], ["--blank-answer", "--operands", 3]])
def test_wrong_digits_come_with_their_probability_and_are_uniform(made, tmp_path, capsys, blank):
    for name, noise in (("clean", 0), ("noisy", 0.2)):
        made("addition --digits 3 --train 4000 --test 50 --noise", noise, *blank, name=name)
    assert "but for wrong digits (0.2 expected)" in capsys.readouterr().out
    clean, noisy = (read_split(tmp_path / name, "train")[1] for name in ("clean", "noisy"))
    digits = (clean.labels >= 1) & (clean.labels <= 10)
    assert (noisy.labels == clean.labels)[~digits].all()
    wrong = noisy.labels[digits] != clean.labels[digits]
    assert wrong.mean() == pytest.approx(0.2, abs=0.015)
    shifts = (noisy.labels[digits].astype(int) - clean.labels[digits])[wrong] % 10
    assert np.bincount(shifts, minlength=10)[1:] / len(shifts) == pytest.approx(np.full(9, 1 / 9), abs=0.02)
    if not blank:  # the model is shown the digits that it was to predict
        scored = noisy.labels[:, :-1] > 0
        assert (noisy.inputs[:, 1:][scored] == noisy.labels[:, :-1][scored]).all()
    else:
        assert (noisy.inputs == clean.inputs).all()
    metadata, _ = read_split(tmp_path / "noisy", "train")
    puzzle = puzzle_of(metadata)
    assert puzzle.noise == 0.2
    assert puzzle.valid(noisy.inputs, noisy.labels).all()
    assert puzzle.solved(noisy.inputs, clean.labels).all()  # the rules know the right sum
    spoilt = noisy.labels[0].copy()
    spoilt[np.flatnonzero(spoilt)[-1]] = 1  # the end is no digit
    assert "where 14 is right" in puzzle.fault(noisy.inputs[0], spoilt)


@pytest.mark.parametrize("line", [
    '{"num1": 1.5, "num2": 2.5, "sum": 4}', '{"num1": "1", "num2": 1, "sum": 2}', '{"num1": -1, "num2": 1, "sum": 0}',
    '{"num1": 1, "num2": 1, "sum": 3}', '{"num1": 1, "num2": 1, "answer": 3}',
    '{"num1": 1, "num2": 1}', '{"num1": 1, "sum": 1}', '{"num1": 1,', "[1, 2]", "[" * 100_000,
    f'{{"num1": 1{"0" * 1000}, "num2": 1, "sum": 1{"0" * 999}1}}',
])  # fmt: skip
def test_faulty_sums_of_a_file_are_refused(tmp_path, refused, line):
    path = tmp_path / "file.jsonl"
    path.write_text('{"num1": 1, "num2": 2, "sum": 3}\n\n' + line + "\n")
    refused(["import", "addition-jsonl", path, "--output-dir", tmp_path / "set"], f"{path}, line 3")


def test_sums_as_the_code_of_stars_reads_them(made, tmp_path):
    rows = '{"num1": 95, "num2": 17, "expression": "95 + 17", "answer": 112}\r\n\r\n'
    (tmp_path / "file.jsonl").write_bytes(codecs.BOM_UTF8 + rows.encode())
    made("import addition-jsonl", tmp_path / "file.jsonl")
