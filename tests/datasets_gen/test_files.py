"""Files as people have them: read right, or refused in one line that names the file, the row and the reason."""

import codecs
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from datasets_gen.__main__ import main
from datasets_gen.layout import DatasetError, Split, read_identifiers, read_split, write_dataset
from datasets_gen.puzzles import UnknownPuzzle, family_of

FIXTURES = Path(__file__).parent / "fixtures"
SUDOKU = (FIXTURES / "sudoku.csv").read_bytes().replace(b"\r\n", b"\n")
DEEP = "[" * 100_000
BOARD, ANSWER = "." * 16, "1" * 16


@pytest.fixture
def refused(tmp_path, capsys):
    """Runs a command that must end in one line with all the messages, and write nothing."""

    def run(words, *messages):
        before = sorted(tmp_path.rglob("*"))
        capsys.readouterr()
        assert main([str(word) for word in words]) == 1
        error = capsys.readouterr().err
        assert error.startswith("error: ")
        assert error.count("\n") == 1
        for message in messages:
            assert str(message) in error
        assert sorted(tmp_path.rglob("*")) == before

    return run


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """A 4×4 Sudoku set."""
    directory = tmp_path_factory.mktemp("good") / "set"
    assert main(["sudoku", "--size", "4", "--train", "8", "--test", "4", "--output-dir", str(directory)]) == 0
    return directory


@pytest.fixture
def damaged(good, tmp_path):
    """A copy of it to damage."""
    return Path(shutil.copytree(good, tmp_path / "damaged"))


@pytest.mark.parametrize(
    "content",
    [
        SUDOKU,
        codecs.BOM_UTF8 + SUDOKU,
        SUDOKU.replace(b"\n", b"\r\n"),
        codecs.BOM_UTF8 + SUDOKU.replace(b"\n", b"\r\n"),
    ],
    ids=["plain", "byte order mark", "CRLF", "both"],
)
def test_csv_of_any_editor_comes_out_again_byte_for_byte(tmp_path, content):
    (tmp_path / "file.csv").write_bytes(content)
    assert main(["import", "sudoku-csv", str(tmp_path / "file.csv"), "--output-dir", str(tmp_path / "set")]) == 0
    metadata, split = read_split(tmp_path / "set", "test")
    assert len(metadata.sources) > 1
    assert split.ratings.dtype == np.int32
    assert main(["export", str(tmp_path / "set"), "--output", str(tmp_path / "out.csv")]) == 0
    assert (tmp_path / "out.csv").read_bytes() == content


HEAD = "source,question,answer,rating\n"
LATIN = (HEAD + f"a,{BOARD},{ANSWER},1\nMöller,{BOARD},{ANSWER},1\n").encode("latin-1")


@pytest.mark.parametrize(
    ("content", "messages"),
    [
        ((HEAD + f"a,{BOARD},{ANSWER},1\n").encode("utf-16"), ["line 1", "UTF-16"]),
        ((HEAD + f"a,{BOARD},{ANSWER},1\n").encode("utf-16-le"), ["line 1", "UTF-16"]),
        (LATIN, ["line 3", "byte 0xf6 is not UTF-8"]),
        (HEAD + f"a,{BOARD},{ANSWER},1\na,{'.' * 1_000_000},{ANSWER},1\n", ["line 3", "field larger than"]),
        (HEAD + f'a,{BOARD},{ANSWER},1\n"a,{BOARD},{ANSWER},1\n', ["line 3", "no CSV"]),
        (HEAD + f"a,{BOARD},{ANSWER},1\na,b,{BOARD},{ANSWER},1\n", ["line 3", "5 fields, 4 expected"]),
        (HEAD + f"a,{BOARD}\n", ["line 2", "2 fields, 4 expected"]),
        (HEAD.replace("source", "answer") + f"a,{BOARD},{ANSWER},1\n", ["line 1", "a column stands twice"]),
        (HEAD + f"a,{BOARD},{ANSWER},nan\n", ["line 2", "'nan' is no number"]),
        (HEAD + f"a,{BOARD},{ANSWER},1e999\n", ["line 2", "more digits than"]),
        (HEAD + f"a,{BOARD},{ANSWER},9007199254740993\n", ["line 2", "more digits than"]),
        (HEAD + f"a,{BOARD},{ANSWER},-1\n", ["line 2", "rating -1 is negative"]),
        (HEAD + "a,,,1\n", ["0 cells", "Sudoku size 0 is unknown"]),
        (HEAD + f"a,{'.' * 25},{'1' * 25},1\n", ["25 cells", "Sudoku size 5 is unknown"]),
        (HEAD + f"a,{'.' * 15}５,{ANSWER},1\n", ["puzzle 1 holds '５' in cell 16"]),
        ("x" * 100_000, ["line 1: no column question or answer"]),
        ("", ["line 1: no column question or answer"]),
    ],
)
def test_faulty_csv(tmp_path, refused, content, messages):
    path = tmp_path / "file.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    refused(["import", "sudoku-csv", path, "--output-dir", tmp_path / "set"], path, *messages)


def test_a_set_without_ratings_leaves_those_of_the_others(damaged):
    path = damaged / "train/dataset.json"
    fields = json.loads(path.read_text())
    fields |= {"sets": ["all", "more"], "total_groups": 16, "total_puzzles": 16}
    path.write_text(json.dumps(fields))
    for key in ("inputs", "labels", "puzzle_identifiers", "puzzle_indices", "group_indices"):
        shutil.copy(damaged / f"train/all__{key}.npy", damaged / f"train/more__{key}.npy")
    _, split = read_split(damaged, "train")
    assert split.ratings[:8].tolist() == np.load(damaged / "train/all__ratings.npy").tolist()
    assert np.isnan(split.ratings[8:]).all()


def test_ratings_keep_their_digits_and_one_another(tmp_path, capsys):
    rows = ["3.25", "", "0.1", "12345678901.5", "0.30000000000000004", "7"]
    content = HEAD + "".join(f"s,{BOARD},{ANSWER},{rating}\n" for rating in rows)
    (tmp_path / "file.csv").write_text(content)
    assert main(["import", "sudoku-csv", str(tmp_path / "file.csv"), "--output-dir", str(tmp_path / "set")]) == 0
    _, split = read_split(tmp_path / "set", "test")
    assert split.ratings.tolist() == pytest.approx([float(r or "nan") for r in rows], rel=0, nan_ok=True)
    assert main(["export", str(tmp_path / "set"), "--output", str(tmp_path / "out.csv")]) == 0
    assert (tmp_path / "out.csv").read_text() == content
    assert main(["show", str(tmp_path / "set"), "--index", "1"]) == 0
    shown = capsys.readouterr().out
    assert "not rated" in shown
    assert "from 0.1 to 1.23457e+10" in shown
    (tmp_path / "file.csv").write_text(HEAD + f"s,{BOARD},{ANSWER},4000000000\n")
    assert main(["import", "sudoku-csv", str(tmp_path / "file.csv"), "--output-dir", str(tmp_path / "large")]) == 0
    assert read_split(tmp_path / "large", "test")[1].ratings.tolist() == [4_000_000_000]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"num1": 1.5, "num2": 2.5, "sum": 4}', "num1 is 1.5"),
        ('{"num1": 1.0, "num2": 2, "sum": 3}', "num1 is 1.0"),
        ('{"num1": 1, "num2": Infinity, "sum": 3}', "num2 is inf"),
        ('{"num1": NaN, "num2": 1, "sum": 3}', "num1 is nan"),
        ('{"num1": true, "num2": 1, "sum": 2}', "num1 is True"),
        ('{"num1": "1", "num2": 1, "sum": 2}', "num1 is '1'"),
        ('{"num1": -1, "num2": 1, "sum": 0}', "num1 is -1"),
        ('{"num1": [[1]], "num2": 1, "sum": 0}', "num1 is a list"),
        ('{"num1": 1, "num2": 1, "sum": 2, "answer": 3}', "1 + 1 is not 3"),
        ('{"num1": 1, "num2": 1, "sum": 2, "expression": "1 + 2"}', "expression '1 + 2' is not num1 + num2"),
        ('{"num1": 1, "num2": 1}', "neither sum nor answer"),
        ('{"num1": 1, "sum": 1}', "no num2"),
        (f'{{"num1": 1{"0" * 5000}, "num2": 1, "sum": 1}}', "digits"),
        ('{"num1": 1,', "line 3, column 1"),
        (f'{{"num1": 1{"0" * 1000}, "num2": 1, "sum": 1{"0" * 999}1}}', "more than 1000 digits"),
        ("[1, 2]", "no object"),
        (DEEP, "nested too deeply"),
    ],
)
def test_faulty_sums(tmp_path, refused, line, message):
    path = tmp_path / "file.jsonl"
    path.write_text('{"num1": 1, "num2": 2, "sum": 3}\n\n' + line + "\n")
    refused(["import", "addition-jsonl", path, "--output-dir", tmp_path / "set"], f"{path}, line 3", message)


def test_sums_as_the_code_of_stars_reads_them(tmp_path):
    rows = '{"num1": 95, "num2": 17, "expression": "95 + 17", "answer": 112}\r\n\r\n'
    (tmp_path / "file.jsonl").write_bytes(codecs.BOM_UTF8 + rows.encode())
    assert main(["import", "addition-jsonl", str(tmp_path / "file.jsonl"), "--output-dir", str(tmp_path / "set")]) == 0
    assert main(["verify", str(tmp_path / "set")]) == 0


GRID = [[0, 1], [2, 3]]


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ([], "0x0 cells"),
        ([[]], "1x0 cells"),
        ([1, 2], "a list of no rows"),
        (5, "5 of no rows"),
        (None, "None of no rows"),
        ([[0] * 30] * 31, "31x30 cells"),
        ([[0] * 31] * 31, "31x31 cells"),
        ([[0, 1], [2]], "row 2: 1 cells, 2 expected"),
        ([[0, 10], [2, 3]], "row 1, column 2: colour 10"),
        ([[0, 1], [-1, 3]], "row 2, column 1: colour -1"),
        ([[0, 1], [2, 1.7]], "row 2, column 2: colour 1.7"),
        ([[0, True]], "colour True"),
        ([[0, "1"]], "colour '1'"),
        ([[0, [1]]], "colour a list"),
        ([[float("inf")]], "colour inf"),
    ],
)
@pytest.mark.parametrize("place", ["train pair 2, input", "train pair 1, output", "test pair 1, input", "solution 1"])
def test_faulty_grids(tmp_path, refused, grid, message, place):
    pairs = {"train": [{"input": GRID, "output": GRID}, {"input": GRID, "output": GRID}], "test": [{"input": GRID}]}
    solutions = [GRID]
    if place == "solution 1":
        solutions = [grid]
    else:
        part, _, number, key = place.replace(",", "").split()
        pairs[part][int(number) - 1] = {**pairs[part][int(number) - 1], key: grid}
    (tmp_path / "a_challenges.json").write_text(json.dumps({"abc": pairs}))
    (tmp_path / "a_solutions.json").write_text(json.dumps({"abc": solutions}))
    path = tmp_path / f"a_{'solutions' if place == 'solution 1' else 'challenges'}.json"
    words = ["import", "arc", tmp_path / "a_challenges.json", "--output-dir", tmp_path / "set"]
    refused(words, f"{path}: task abc, {place}", message)


@pytest.mark.parametrize(
    ("challenges", "solutions", "message"),
    [
        ({}, None, "holds no ARC tasks"),
        ({"a": []}, None, "task a: no object with the lists train and test"),
        ({"a": {"train": {}, "test": []}}, None, "task a: no object with the lists"),
        ({"a": {"train": [], "test": []}}, None, "task a: not one pair"),
        ({"a": {"train": [{"input": GRID}], "test": []}}, None, "train pair 1: no object with input and output"),
        ({"a|||b": {"train": [], "test": [{"input": GRID}]}}, None, "no |||"),
        ({"\x1b[31m": 1}, None, "task '\\x1b[31m'"),
        ({"a": {"train": [], "test": [{"input": GRID}]}}, None, "no solution"),
        ({"a": {"train": [], "test": [{"input": GRID}]}}, [], "holds no solutions"),
        ({"a": {"train": [], "test": [{"input": GRID}]}}, {"b": [GRID]}, "task 'b' is not among the challenges"),
        ({"a": {"train": [], "test": [{"input": GRID}]}}, {"a": [GRID, GRID]}, "another number of solutions"),
        ('{"a": 1, "a": 2}', None, "'a' stands twice in one object"),
        ("{", None, "line 1, column 2: no JSON"),
        (DEEP, None, "nested too deeply"),
    ],
)
def test_faulty_tasks(tmp_path, refused, challenges, solutions, message):
    path = tmp_path / "a_challenges.json"
    path.write_text(challenges if isinstance(challenges, str) else json.dumps(challenges))
    if solutions is not None:
        (tmp_path / "a_solutions.json").write_text(json.dumps(solutions))
    refused(["import", "arc", path, "--output-dir", tmp_path / "set"], message)


def test_a_task_in_a_file_of_its_own_and_the_same_task_twice(tmp_path, refused, capsys):
    task = {
        "train": [{"input": GRID, "output": GRID}],
        "test": [{"input": GRID[::-1], "output": GRID}, {"input": GRID}],
    }
    (tmp_path / "007bbfb7.json").write_text(json.dumps(task))
    words = [
        "import",
        "arc",
        str(tmp_path / "007bbfb7.json"),
        "--split",
        "train",
        "--output-dir",
        str(tmp_path / "set"),
    ]
    assert main(words) == 0
    assert "1 test pairs of training tasks have no solution" in capsys.readouterr().err
    assert json.loads((tmp_path / "set/identifiers.json").read_text())[1] == "007bbfb7"
    shutil.copytree(tmp_path, tmp_path / "more", ignore=shutil.ignore_patterns("set"))
    words[3:3] = [str(tmp_path / "more/007bbfb7.json")]
    refused([*words[:-1], tmp_path / "two"], "task 007bbfb7 is in another source too")


def rewrite(path, change):
    np.save(path, change(np.load(path)))


def test_arrays_of_another_byte_order_or_width_are_read_as_the_same(good, damaged):
    for path in damaged.glob("*/*.npy"):
        rewrite(path, lambda array: np.asfortranarray(array.astype(">i8")))
    rewrite(damaged / "train/all__labels.npy", lambda array: array.astype(np.uint16))
    rewrite(damaged / "train/all__ratings.npy", lambda array: array.astype(">f4"))
    assert main(["verify", str(damaged)]) == 0
    for name in ("train", "test"):
        ours, theirs = (read_split(directory, name)[1] for directory in (good, damaged))
        for key in ("inputs", "labels", "puzzle_identifiers", "puzzle_indices", "group_indices", "ratings"):
            array = getattr(theirs, key)
            assert (array == getattr(ours, key)).all()
            assert array.dtype.isnative
            assert array.flags.c_contiguous
        assert theirs.inputs.dtype == np.int32


@pytest.mark.parametrize("key", ["inputs", "puzzle_identifiers", "group_indices", "ratings"])
@pytest.mark.parametrize("dtype", [bool, complex, "U3", object, "datetime64[s]", [("a", int)], np.float64])
def test_arrays_of_no_numbers_are_refused(damaged, refused, key, dtype):
    if (key, dtype) == ("ratings", np.float64):
        return
    path = damaged / f"train/all__{key}.npy"
    np.save(path, np.zeros(np.load(path).shape, dtype))
    refused(["verify", damaged], path, "expected")


def test_arrays_that_promise_more_than_they_hold(damaged, refused):
    path = damaged / "train/all__inputs.npy"
    path.write_bytes(path.read_bytes().replace(b"'shape': (8, 16), ", b"'shape': (8" + b"0" * 4 + b", 16),"))
    refused(["verify", damaged], path, "cannot be read", "80000")
    path.write_bytes(b"PK\x03\x04" + bytes(100))
    refused(["verify", damaged], path, "cannot be read")
    path.unlink()
    path.mkdir()
    refused(["verify", damaged], path, "is a folder")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes")
@pytest.mark.parametrize("name", ["train/all__inputs.npy", "train/all__ratings.npy", "identifiers.json"])
def test_a_pipe_where_a_file_should_be(damaged, refused, name):
    (damaged / name).unlink()
    os.mkfifo(damaged / name)
    refused(["verify", damaged], damaged / name, "is no regular file")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes")
def test_a_pipe_for_a_source_or_dataset_json(tmp_path, damaged, refused):
    os.mkfifo(tmp_path / "pipe")
    for kind in ("sudoku-csv", "arc", "addition-jsonl"):
        refused(["import", kind, tmp_path / "pipe", "--output-dir", tmp_path / "set"], "is no regular file")
    (damaged / "train/dataset.json").unlink()
    os.mkfifo(damaged / "train/dataset.json")
    refused(["verify", damaged], "train holds arrays but no dataset.json")


def test_names_are_no_paths(tmp_path, damaged, refused, capsys):
    fields = json.loads((damaged / "train/dataset.json").read_text())
    for name in ("../../test/all", "..", "", "/etc/passwd", "a/b", "a\\b", "a\0b"):
        (damaged / "train/dataset.json").write_text(json.dumps(fields | {"sets": [name]}))
        refused(["verify", damaged], "train/dataset.json: sets:", "is no name")
        refused(["import", "npy", damaged, "--output-dir", tmp_path / "set"], "is no name")
    for name in ("../damaged/test", "/", "..", "."):
        refused(["show", damaged, "--split", name], "is no name")
        refused(["export", damaged, "--split", name, "--output", tmp_path / "x.csv"], "is no name")
        assert main(["import", "sudoku-csv", str(FIXTURES / "sudoku.csv"), "--split", name, "--output-dir", "x"]) == 2
        assert "invalid choice" in capsys.readouterr().err
        with pytest.raises(DatasetError, match="is no name"):
            write_dataset(tmp_path / "set", {name: Split.of_puzzles(*np.ones((2, 3, 4)))}, task={}, vocab_size=3)
    assert not (tmp_path / "set").exists()
    refused(["import", "npy", damaged, "--split", "test", "--output-dir", tmp_path / "set"], "leave --split out")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (DEEP, "nested too deeply"),
        ('{"a": 1}', "must hold a list of names"),
        ("[1]", "must hold a list of names"),
        ('["a", "b"]', "names 2 different identifiers, dataset.json says 1"),
        ("[", "no JSON"),
        ("[]".encode("utf-16"), "UTF-16"),
    ],
)
def test_faulty_identifiers(damaged, refused, content, message):
    path = damaged / "identifiers.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    refused(["verify", damaged], path, message)


def test_sets_without_identifiers_are_given_some(tmp_path, damaged):
    (damaged / "identifiers.json").unlink()
    assert main(["verify", str(damaged)]) == 0
    assert main(["import", "npy", str(damaged), "--output-dir", str(tmp_path / "set")]) == 0
    assert json.loads((tmp_path / "set/identifiers.json").read_text()) == ["<blank>"]
    metadata = read_split(damaged, "train")[0].model_copy(update={"num_puzzle_identifiers": 3})
    assert read_identifiers(damaged, metadata) == ["<blank>", "puzzle-1", "puzzle-2"]
    with pytest.raises(DatasetError, match="give it the file"):
        read_identifiers(damaged, metadata.model_copy(update={"num_puzzle_identifiers": 2**31 - 1}))


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("task", {"name": "sudoku", "size": "4"}, "size is '4', int expected"),
        ("task", {"name": "sudoku", "rows": 4}, "rows is 4, not one of size"),
        ("task", {"name": "maze", "size": 4.0}, "size is 4.0, int expected"),
        ("task", {"name": "maze", "size": -4}, "maze size -4"),
        ("task", {"name": "addition", "digits": 10**8}, "at most 1000"),
        ("task", {"name": "arc", "size": 31}, "31x31"),
        ("vocab_size", 10**30, "vocab_size: Input should be less than or equal to"),
        ("pad_id", "x", "pad_id"),
        ("sets", [], "sets"),
        ("mean_puzzle_examples", float("nan"), "mean_puzzle_examples"),
    ],
)
def test_faulty_fields(damaged, refused, field, value, message):
    for path in damaged.glob("*/dataset.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {field: value}))
    refused(["verify", damaged], message)


def test_deep_dataset_json(damaged, refused):
    (damaged / "train/dataset.json").write_text('{"provenance": ' + DEEP)
    refused(["verify", damaged], "train/dataset.json")


def test_splits_must_agree_where_they_become_one_set(tmp_path, damaged, refused):
    path = damaged / "test/dataset.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"sources": ["somewhere"]}))
    refused(["import", "npy", damaged, "--output-dir", tmp_path / "set"], "sources is")


def own_set(directory, labels, task=None, vocab_size=7, **more):
    """A set of 3×4 tokens of nobody's kind."""
    inputs = np.arange(12).reshape(3, 4) % vocab_size
    splits = {
        "train": Split.of_puzzles(inputs, np.array(labels)),
        "test": Split.of_puzzles(inputs + 0, np.array(labels)),
    }
    write_dataset(directory, splits, task=task or {}, vocab_size=vocab_size, **more)


@pytest.mark.parametrize("task", [{}, {"name": "chess"}, {"name": ["chess"]}, {"causal": True}])
def test_the_layout_of_a_puzzle_of_one_s_own_is_verified(tmp_path, capsys, task):
    own_set(tmp_path / "set", np.ones((3, 4)), task)
    assert main(["verify", str(tmp_path / "set")]) == 0
    out, error = capsys.readouterr()
    assert "train: layout of 3 examples" in out
    assert error.startswith("warning: only the layout was checked: no puzzle family for task")
    assert error.count("\n") == 1
    with pytest.raises(UnknownPuzzle):
        family_of(task, 4, 7)
    rewrite(tmp_path / "set/test/all__labels.npy", lambda array: array + 7)
    assert main(["verify", str(tmp_path / "set")]) == 1


@pytest.mark.parametrize("ignore", [0, 5, -100, -1])
def test_examples_without_a_scored_cell(tmp_path, capsys, refused, ignore):
    labels = np.full((3, 4), ignore)
    labels[1, 2] = labels[0, 0] = 1
    own_set(tmp_path / "some", labels, ignore_label_id=ignore)
    assert main(["verify", str(tmp_path / "some")]) == 0
    assert "some/train: 1 of 3 examples have no scored cell" in capsys.readouterr().err
    assert main(["import", "npy", str(tmp_path / "some"), "--output-dir", str(tmp_path / "again")]) == 0
    assert "some/test: 1 examples have no scored cell" in capsys.readouterr().err
    assert (read_split(tmp_path / "again", "train")[1].labels == labels).all()
    own_set(tmp_path / "none", np.full((3, 4), ignore), ignore_label_id=ignore)
    refused(["verify", tmp_path / "none"], "none/train: no cell of any example is scored")
    refused(["import", "npy", tmp_path / "none", "--output-dir", tmp_path / "set"], "no cell of any example is scored")


@pytest.mark.parametrize("name", ["x.foo", "x", "x.", ".png"])
def test_pictures_of_no_kind(tmp_path, good, refused, name):
    refused(["show", good, "--png", tmp_path / name], "is no kind of picture", "png")


def test_a_csv_has_no_empty_cells(tmp_path, damaged, refused):
    rewrite(damaged / "train/all__labels.npy", lambda array: np.where(array == 2, 0, array))
    refused(["export", damaged, "--output", tmp_path / "x.csv"], "labels: cell", "is no cell of a sudoku")
