"""Sets on disk as people have them: read right, or refused in one line that names the file, the row and the reason."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from survivors import content, entry

from datasets_gen.__main__ import main
from datasets_gen.layout import DatasetError, Split, read_identifiers, read_split, write_dataset
from datasets_gen.puzzles import UnknownPuzzle, family_of

FIXTURES = Path(__file__).parent / "fixtures"
ARRAYS = ("inputs", "labels", "puzzle_identifiers", "puzzle_indices", "group_indices")


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """A 4×4 Sudoku set, rated."""
    directory = tmp_path_factory.mktemp("good") / "set"
    assert main(["sudoku", "--size", "4", "--train", "8", "--test", "4", "--output-dir", str(directory)]) == 0
    for split, puzzles in (("train", 8), ("test", 4)):
        np.save(directory / split / "all__ratings.npy", np.arange(puzzles, dtype=np.int32))
    return directory


@pytest.fixture
def damaged(good, tmp_path):
    """A copy of it to damage."""
    return Path(shutil.copytree(good, tmp_path / "damaged"))


def rewrite(path, change):
    np.save(path, change(np.load(path)))


def test_a_set_without_ratings_leaves_those_of_the_others(damaged):
    for field, value in {"sets": ["all", "more"], "total_groups": 16, "total_puzzles": 16}.items():
        entry("train/dataset.json", field, value)(damaged)
    for key in ARRAYS:
        shutil.copy(damaged / f"train/all__{key}.npy", damaged / f"train/more__{key}.npy")
    _, split = read_split(damaged, "train")
    assert split.ratings[:8].tolist() == np.load(damaged / "train/all__ratings.npy").tolist()
    assert np.isnan(split.ratings[8:]).all()


def test_arrays_of_another_byte_order_or_width_are_read_as_the_same(good, damaged):
    for path in damaged.glob("*/*.npy"):
        rewrite(path, lambda array: np.asfortranarray(array.astype(">i8")))
    rewrite(damaged / "train/all__labels.npy", lambda array: array.astype(np.uint16))
    rewrite(damaged / "train/all__ratings.npy", lambda array: array.astype(">f4"))
    assert main(["verify", str(damaged)]) == 0
    for name in ("train", "test"):
        ours, theirs = (read_split(directory, name)[1] for directory in (good, damaged))
        for key in (*ARRAYS, "ratings"):
            array = getattr(theirs, key)
            assert (array == getattr(ours, key)).all()
            assert array.dtype.isnative
            assert array.flags.c_contiguous
        assert theirs.inputs.dtype == np.int32


def of_type(key, dtype):
    """An array of no numbers."""
    return lambda folder: rewrite(folder / f"train/all__{key}.npy", lambda array: np.zeros(array.shape, dtype))


def promising_more(folder):
    """A header that says 80,000 rows."""
    path = folder / "train/all__inputs.npy"
    path.write_bytes(path.read_bytes().replace(b"'shape': (8, 16), ", b"'shape': (80000, 16),"))


def a_folder(folder):
    (folder / "train/all__inputs.npy").unlink()
    (folder / "train/all__inputs.npy").mkdir()


def field(name, value):
    """A field of dataset.json in both splits."""
    return lambda folder: [entry(f"{split}/dataset.json", name, value)(folder) for split in ("train", "test")]


NAMES = "identifiers.json"
FAULTS = [
    *((of_type("inputs", dtype), "expected") for dtype in (bool, complex, "U3", object, "datetime64[s]", [("a", int)])),
    *((of_type(key, complex), "expected") for key in ("puzzle_identifiers", "group_indices", "ratings")),
    (promising_more, "train/all__inputs.npy cannot be read (131 bytes where uint8 of shape (80000, 16) take"),
    (content("train/all__inputs.npy", b"PK\x03\x04" + bytes(100)), "train/all__inputs.npy cannot be read"),
    (a_folder, "train/all__inputs.npy is missing"),
    (content(NAMES, "[" * 100_000), "identifiers.json holds JSON that is nested too deeply"),
    (content(NAMES, '{"a": 1}'), "must hold a list of names"),
    (content(NAMES, "[1]"), "must hold a list of names"),
    (content(NAMES, '["a", "b"]'), "names 2 different identifiers, dataset.json says 1"),
    (content(NAMES, "["), "no JSON"),
    (content(NAMES, "[]".encode("utf-16")), "UTF-16"),
    (field("task", {"name": "sudoku", "size": "4"}), "size is '4', int expected"),
    (field("task", {"name": "sudoku", "rows": 4}), "rows is 4, not one of size"),
    (field("task", {"name": "maze", "size": 4.0}), "size is 4.0, int expected"),
    (field("task", {"name": "maze", "size": -4}), "maze size -4"),
    (field("task", {"name": "addition", "digits": 10**8}), "at most 1000"),
    (field("vocab_size", 10**30), "vocab_size: Input should be less than or equal to"),
    (field("pad_id", "x"), "pad_id"),
    (field("sets", []), "sets"),
    *((field("sets", [name]), "is no name") for name in ("../../test/all", "..", "", "/etc/passwd", "a\\b", "a\0b")),
    (field("mean_puzzle_examples", float("nan")), "mean_puzzle_examples"),
]


@pytest.mark.parametrize(("damage", "message"), FAULTS, ids=range(len(FAULTS)))
def test_a_faulty_set_is_refused(damaged, refused, damage, message):
    damage(damaged)
    refused(["verify", damaged], message)


def test_names_are_no_paths(tmp_path, damaged, refused, capsys):
    for name in ("../damaged/test", "/", "..", "."):
        refused(["show", damaged, "--split", name], "is no name")
        refused(["export", damaged, "--split", name, "--output", tmp_path / "x.csv"], "is no name")
        assert main(["import", "sudoku-csv", str(FIXTURES / "sudoku.csv"), "--split", name, "--output-dir", "x"]) == 2
        assert "invalid choice" in capsys.readouterr().err
        with pytest.raises(DatasetError, match="is no name"):
            write_dataset(tmp_path / "set", {name: Split.of_puzzles(*np.ones((2, 3, 4)))}, task={}, vocab_size=3)
    assert not (tmp_path / "set").exists()


def test_what_cannot_be_imported_shown_or_exported_is_refused(tmp_path, damaged, refused):
    new = ["--output-dir", tmp_path / "set"]
    for name in ("x.foo", "x", "x.", ".png"):
        refused(["show", damaged, "--png", tmp_path / name], "is no kind of picture", "png")
    refused(["import", "npy", damaged, "--split", "test", *new], "leave --split out")
    for kind in ("sudoku-csv", "addition-jsonl"):
        refused(["import", kind, tmp_path / "none", *new], f"no file {tmp_path / 'none'}")
    entry("test/dataset.json", "sources", ["somewhere"])(damaged)
    refused(["import", "npy", damaged, *new], "sources is")
    rewrite(damaged / "train/all__labels.npy", lambda array: np.where(array == 2, 0, array))
    refused(["export", damaged, "--output", tmp_path / "x.csv"], "labels: cell", "is no cell of a sudoku")


def test_sets_without_identifiers_are_given_some(tmp_path, damaged):
    (damaged / "identifiers.json").unlink()
    assert main(["verify", str(damaged)]) == 0
    assert main(["import", "npy", str(damaged), "--output-dir", str(tmp_path / "set")]) == 0
    assert json.loads((tmp_path / "set/identifiers.json").read_text()) == ["<blank>"]
    metadata = read_split(damaged, "train")[0].model_copy(update={"num_puzzle_identifiers": 3})
    assert read_identifiers(damaged, metadata) == ["<blank>", "puzzle-1", "puzzle-2"]
    with pytest.raises(DatasetError, match="give it the file"):
        read_identifiers(damaged, metadata.model_copy(update={"num_puzzle_identifiers": 2**31 - 1}))


def own_set(directory, labels, task=None, vocab_size=7, **more):
    """A set of 3×4 tokens of nobody's kind."""
    inputs = np.arange(12).reshape(3, 4) % vocab_size
    splits = {name: Split.of_puzzles(inputs.copy(), np.array(labels)) for name in ("train", "test")}
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
