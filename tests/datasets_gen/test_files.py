"""Sets on disk as people have them: read right, or refused in one line that names the file, the row and the reason."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from datasets_gen.__main__ import main
from datasets_gen.layout import DatasetError, Split, read_identifiers, read_split, write_dataset
from datasets_gen.locks import directory_lock
from datasets_gen.puzzles import UnknownPuzzle, family_of

FIXTURES = Path(__file__).parent / "fixtures"
DEEP = "[" * 100_000


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
@pytest.mark.parametrize("dtype", [bool, complex, "U3", object, "datetime64[s]", [("a", int)]])
def test_arrays_of_no_numbers_are_refused(damaged, refused, key, dtype):
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


def test_splits_must_agree_where_they_become_one_set(tmp_path, damaged, refused):
    path = damaged / "test/dataset.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"sources": ["somewhere"]}))
    refused(["import", "npy", damaged, "--output-dir", tmp_path / "set"], "sources is")


def own_set(directory, labels, task=None, vocab_size=7, **more):
    """A set of 3×4 tokens of nobody's kind."""
    inputs = np.arange(12).reshape(3, 4) % vocab_size
    splits = {name: Split.of_puzzles(inputs.copy(), np.array(labels)) for name in ("train", "test")}
    write_dataset(directory, splits, task=task or {}, vocab_size=vocab_size, **more)


def test_what_a_killed_process_left_is_cleared(tmp_path):
    """A scratch folder of the same set, unless a process still writes it; those of other sets stay."""
    left, other = tmp_path / ".set.partial-1", tmp_path / ".set2.partial-1"
    for folder in (left, other):
        folder.mkdir()
        (folder / "half.npy").write_text("half")
    with directory_lock(left):
        own_set(tmp_path / "set", np.ones((3, 4)))
        assert left.exists()
    shutil.rmtree(tmp_path / "set")
    own_set(tmp_path / "set", np.ones((3, 4)))
    assert sorted(path.name for path in tmp_path.iterdir()) == [other.name, "set"]


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
