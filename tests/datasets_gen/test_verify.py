"""verify passes on good sets and finds every kind of damage."""

import json
import shutil

import numpy as np
import pytest

from datasets_gen.__main__ import main


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """One small set of each family."""
    root = tmp_path_factory.mktemp("good")
    for words in ("sudoku --size 6", "maze --size 6 --min-path 8", "addition --digits 2"):
        name = words.split()[0]
        assert main([*words.split(), "--train", "12", "--test", "8", "--output-dir", str(root / name)]) == 0
        assert main(["verify", str(root / name)]) == 0
    return root


def array(name, change, split="train"):
    """Damage that changes one array."""

    def damage(root):
        path = root / split / f"all__{name}.npy"
        np.save(path, change(np.load(path)))

    return damage


def field(name, value, split="train"):
    """Damage that changes one field of dataset.json; None removes it."""

    def damage(root):
        path = root / split / "dataset.json"
        fields = json.loads(path.read_text())
        fields[name] = value
        path.write_text(json.dumps({key: value for key, value in fields.items() if value is not ...}))

    return damage


def put(row, column, value):
    """An array with one element replaced; value may be a function of the old one."""

    def change(values):
        values = values.copy()
        values[row, column] = value(values[row, column]) if callable(value) else value
        return values

    return change


def torn(root):
    path = root / "test/all__labels.npy"
    path.write_bytes(path.read_bytes()[:-30])


def garbled(root):
    path = root / "test/all__labels.npy"
    path.write_bytes(b"\x93NUMPY\x01\x00v\x00{'descr'" + path.read_bytes()[20:])


def open_a_clue(root):
    """One clue fewer: a minimal puzzle has several solutions then."""
    path = root / "train/all__inputs.npy"
    inputs = np.load(path)
    inputs[3, np.flatnonzero(inputs[3] > 1)[0]] = 1
    np.save(path, inputs)


def change_a_clue(root):
    path = root / "train/all__inputs.npy"
    inputs = np.load(path)
    cell = np.flatnonzero(inputs[3] > 1)[0]
    inputs[3, cell] = inputs[3, cell] % 6 + 2
    np.save(path, inputs)


def leak(root):
    for key in ("inputs", "labels"):
        train, test = (np.load(root / f"{name}/all__{key}.npy") for name in ("train", "test"))
        test[2] = train[5]
        np.save(root / f"test/all__{key}.npy", test)
    for name in ("train", "test"):
        (root / f"{name}/all__ratings.npy").unlink()


def leak_in_disguise(root):
    """Digits relabelled, rows of a band swapped."""
    for key in ("inputs", "labels"):
        train, test = (np.load(root / f"{name}/all__{key}.npy") for name in ("train", "test"))
        grid = train[5].reshape(6, 6)[[1, 0, 2, 3, 4, 5]]
        test[2] = np.where(grid > 1, 9 - grid, grid).ravel()
        np.save(root / f"test/all__{key}.npy", test)


def turned_leak(root):
    for key in ("inputs", "labels"):
        train, test = (np.load(root / f"{name}/all__{key}.npy") for name in ("train", "test"))
        test[2] = train[5].reshape(6, 6)[::-1].ravel()
        np.save(root / f"test/all__{key}.npy", test)


def twice(root):
    for key in ("inputs", "labels", "ratings"):
        path = root / f"train/all__{key}.npy"
        values = np.load(path)
        values[2] = values[5]
        np.save(path, values)


def swap_rows_of_labels(labels):
    return labels[[1, 0, *range(2, len(labels))]]


def longer_path(root):
    """A path with a wall removed from its way: no longer as stored."""
    path = root / "train/all__labels.npy"
    labels = np.load(path)
    row, cell = np.argwhere(labels == 2)[0]
    labels[row, cell] = 5
    np.save(path, labels)


def two_starts(root):
    for key in ("inputs", "labels"):
        path = root / f"train/all__{key}.npy"
        values = np.load(path)
        values[0, np.flatnonzero(values[0] == 1)[0]] = 3
        np.save(path, values)


DAMAGE = {
    "sudoku": {
        "a torn array": (torn, "all__labels.npy cannot be read"),
        "a garbled header": (garbled, "all__labels.npy cannot be read"),
        "a missing array": (lambda root: (root / "train/all__group_indices.npy").unlink(), "is missing"),
        "no dataset.json": (lambda root: (root / "test/dataset.json").unlink(), "no dataset.json"),
        "no JSON": (lambda root: (root / "test/dataset.json").write_text("{"), "Invalid JSON"),
        "a missing field": (field("seq_len", ...), "seq_len: Field required"),
        "a field of another type": (field("vocab_size", "many"), "vocab_size: Input should be a valid integer"),
        "another length": (field("seq_len", 35), "the 35 cells"),
        "a small vocabulary": (field("vocab_size", 7), "outside the vocabulary"),
        "a large vocabulary": (field("vocab_size", 9), "vocab_size is"),
        "another size": (field("task", {"name": "sudoku", "size": 9}), "task is"),
        "an unknown family": (field("task", {"name": "chess"}), "task is"),
        "wrong groups": (field("total_groups", 5), "says 5 groups"),
        "wrong puzzles": (field("total_puzzles", 5), "says 5 puzzles"),
        "a wrong mean": (field("mean_puzzle_examples", 2.0), "mean_puzzle_examples is 2.0"),
        "an ignored digit": (field("ignore_label_id", 2), "ignore_label_id is"),
        "padding outside": (field("pad_id", 99), "pad_id 99"),
        "a set that is not there": (field("sets", ["all", "more"]), "more__inputs.npy is missing"),
        "a set counted twice": (field("sets", ["all", "all"]), "groups"),
        "too many identifiers": (lambda root: (root / "identifiers.json").write_text('["a", "b"]'), "names 2"),
        "an identifier outside": (array("puzzle_identifiers", lambda ids: ids + 7), "an identifier is outside"),
        "too few identifiers": (array("puzzle_identifiers", lambda ids: ids[1:]), "puzzle_identifiers.npy has shape"),
        "indices that stand still": (
            array("puzzle_indices", lambda ends: np.sort([*ends[2:], 0, 0])),
            "an entry owns no",
        ),
        "indices that end early": (array("group_indices", lambda ends: ends[:-1]), "must run from 0"),
        "no indices": (array("group_indices", lambda ends: ends[:0]), "must run from 0"),
        "fractions": (array("inputs", lambda tokens: tokens.astype(float)), "holds float64"),
        "fewer labels": (array("labels", lambda labels: labels[:-1]), "12 inputs but 11 labels"),
        "flat inputs": (array("inputs", np.ravel), "has shape"),
        "a token outside": (array("labels", put(1, 2, 77)), "token 77 at example 1, cell 2"),
        "an open cell in an answer": (array("labels", put(1, 2, 1)), "token 1"),
        "padding in a question": (array("inputs", put(1, 2, 0)), "token 0"),
        "a wrong digit": (array("labels", put(4, 9, lambda old: old % 6 + 2)), "example 4"),
        "two answers exchanged": (array("labels", swap_rows_of_labels), "example 0"),
        "a clue changed": (change_a_clue, "where the question gives"),
        "a clue taken away": (open_a_clue, "more than one solution"),
        "a leak": (leak, "leak: test example 2 is train example 5"),
        "a leak in disguise": (leak_in_disguise, "leak: test example 2 is train example 5"),
        "a puzzle twice": (twice, "examples 2 and 5 ask the same question"),
        "a negative rating": (array("ratings", lambda ratings: ratings - 100), "rating is negative"),
        "too few ratings": (array("ratings", lambda ratings: ratings[1:]), "ratings.npy has shape"),
    },
    "maze": {
        "a path too long": (longer_path, "the shortest has"),
        "two starts": (two_starts, "2 cells S"),
        "a leak, turned": (turned_leak, ""),
        "a wrong length": (array("ratings", lambda ratings: ratings + 1), "is rated"),
        "two answers exchanged": (array("labels", swap_rows_of_labels), "example 0"),
    },
    "addition": {
        "a wrong digit": (array("labels", put(3, 7, lambda old: old % 10 + 1)), "example 3: the answer holds"),
        "labels not shifted": (array("labels", lambda labels: np.roll(labels, 1, 1)), "the answer holds token"),
        "another sum": (array("inputs", put(3, 0, lambda old: old % 9 + 2)), "example 3"),
        "a leak": (leak, "leak: test example 2 is train example 5"),
    },
}


@pytest.mark.parametrize(("family", "kind"), [(family, kind) for family in DAMAGE for kind in DAMAGE[family]])
def test_damage_is_found(good, tmp_path, capsys, family, kind):
    damage, message = DAMAGE[family][kind]
    shutil.copytree(good / family, tmp_path / "set")
    damage(tmp_path / "set")
    assert main(["verify", str(tmp_path / "set")]) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert message in error
