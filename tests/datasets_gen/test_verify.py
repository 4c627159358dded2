"""verify passes on good sets and finds every kind of damage."""

import json
import shutil

import numpy as np
import pytest

from datasets_gen.__main__ import main
from datasets_gen.layout import mapped


@pytest.fixture(params=["in memory", "on disk"])
def kept(request, monkeypatch):
    """Where arrays are kept that are read, and in parts of five examples."""
    monkeypatch.setattr(mapped, "ROWS", 5)
    monkeypatch.setattr(mapped, "LARGE", 0 if request.param == "on disk" else mapped.LARGE)


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """One small set of each family."""
    root = tmp_path_factory.mktemp("good")
    for words in ("sudoku --size 6", "maze --size 6 --min-path 8", "addition --digits 2"):
        name = words.split()[0]
        assert main([*words.split(), "--train", "12", "--test", "8", "--output-dir", str(root / name)]) == 0
        assert main(["verify", str(root / name)]) == 0
    return root


def array(names, change, split="train"):
    """Damage that changes arrays, in place or to what `change` returns."""

    def damage(root):
        for name in names.split():
            path = root / split / f"all__{name}.npy"
            values = np.load(path)
            changed = change(values)
            np.save(path, values if changed is None else changed)

    return damage


def rated(ratings):
    """Ratings for the training puzzles."""
    return lambda root: np.save(root / "train/all__ratings.npy", ratings)


def field(name, value, split="train"):
    """Damage that changes one field of dataset.json; None removes it."""

    def damage(root):
        path = root / split / "dataset.json"
        fields = json.loads(path.read_text())
        fields[name] = value
        path.write_text(json.dumps({key: value for key, value in fields.items() if value is not ...}))

    return damage


def put(row, column, value):
    """One element replaced; value may be a function of the old one."""

    def change(values):
        values[row, column] = value(values[row, column]) if callable(value) else value

    return change


def torn(root):
    path = root / "test/all__labels.npy"
    path.write_bytes(path.read_bytes()[:-30])


def garbled(root):
    path = root / "test/all__labels.npy"
    path.write_bytes(b"\x93NUMPY\x01\x00v\x00{'descr'" + path.read_bytes()[20:])


def first_clue(value):
    """The first clue of puzzle 3 replaced."""
    return lambda inputs: put(3, np.flatnonzero(inputs[3] > 1)[0], value)(inputs)


def leak(turned=None):
    """A training puzzle among the test puzzles, perhaps turned; its rating may differ."""

    def damage(root):
        for key in ("inputs", "labels"):
            train, test = (np.load(root / f"{name}/all__{key}.npy") for name in ("train", "test"))
            test[2] = turned(train[5].reshape(6, 6)).ravel() if turned else train[5]
            np.save(root / f"test/all__{key}.npy", test)
        for path in [] if turned else root.glob("*/all__ratings.npy"):
            path.unlink()

    return damage


def disguised(grid):
    """Digits relabelled, rows of a band swapped."""
    grid = grid[[1, 0, 2, 3, 4, 5]]
    return np.where(grid > 1, 9 - grid, grid)


def swap_rows(labels):
    return labels[[1, 0, *range(2, len(labels))]]


DAMAGE = {
    "sudoku": {
        "a torn array": (torn, "all__labels.npy cannot be read"),
        "a garbled header": (garbled, "all__labels.npy cannot be read"),
        "a missing array": (lambda root: (root / "train/all__group_indices.npy").unlink(), "is missing"),
        "no dataset.json": (lambda root: (root / "test/dataset.json").unlink(), "no dataset.json"),
        "no JSON": (lambda root: (root / "test/dataset.json").write_text("{"), "Invalid JSON"),
        "deep JSON": (
            lambda root: (root / "train/dataset.json").write_text('{"a": ' + "[" * 100_000),
            "train/dataset.json",
        ),
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
        "a token outside": (array("labels", put(6, 2, 77)), "token 77 at example 6, cell 2"),
        "an open cell in an answer": (array("labels", put(1, 2, 1)), "token 1"),
        "padding in a question": (array("inputs", put(1, 2, 0)), "token 0"),
        "a wrong digit": (array("labels", put(4, 9, lambda old: old % 6 + 2)), "example 4: "),
        "a wrong digit further on": (array("labels", put(7, 9, lambda old: old % 6 + 2)), "example 7: "),
        "three wrong digits": (array("labels", put([4, 7, 11], 9, lambda old: old % 6 + 2)), "(3 faulty examples)"),
        "two answers exchanged": (array("labels", swap_rows), "example 0"),
        "a clue changed": (array("inputs", first_clue(lambda old: old % 6 + 2)), "where the question gives"),
        "a clue taken away": (array("inputs", first_clue(1)), "more than one solution"),  # the puzzle was minimal
        "a leak": (leak(), "leak: test example 2 is train example 5"),
        "a leak in disguise": (leak(disguised), "leak: test example 2 is train example 5"),
        "a puzzle twice": (
            array("inputs labels", lambda values: values.__setitem__(2, values[5])),
            "examples 2 and 5 ask the same question",
        ),
        "a negative rating": (rated(-np.ones(12)), "rating is negative"),
        "too few ratings": (rated(np.ones(11)), "ratings.npy has shape"),
    },
    "maze": {
        "a path too long": (
            array("labels", lambda tokens: put(*np.argwhere(tokens == 2)[0], 5)(tokens)),
            "the shortest has",
        ),
        "two starts": (
            array("inputs labels", lambda tokens: put(0, np.flatnonzero(tokens[0] == 1)[0], 3)(tokens)),
            "2 cells S",
        ),
        "a leak, turned": (leak(lambda grid: grid[::-1]), ""),
        "wrong lengths": (array("ratings", lambda ratings: ratings + 1), "puzzle 0 is rated"),
        "a wrong length": (array("ratings", lambda ratings: ratings + (np.arange(12) == 8)), "puzzle 8 is rated"),
        "two answers exchanged": (array("labels", swap_rows), "example 0"),
    },
    "addition": {
        "a wrong digit": (array("labels", put(3, 7, lambda old: old % 10 + 1)), "example 3: the answer holds"),
        "labels not shifted": (array("labels", lambda labels: np.roll(labels, 1, 1)), "the answer holds token"),
        "another sum": (array("inputs", put(3, 0, lambda old: old % 9 + 2)), "example 3"),
        "a leak": (leak(), "leak: test example 2 is train example 5"),
    },
}


@pytest.mark.parametrize(("family", "kind"), [(family, kind) for family in DAMAGE for kind in DAMAGE[family]])
def test_damage_is_found(good, kept, tmp_path, capsys, family, kind):
    damage, message = DAMAGE[family][kind]
    shutil.copytree(good / family, tmp_path / "set")
    damage(tmp_path / "set")
    assert main(["verify", str(tmp_path / "set")]) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert message in error
