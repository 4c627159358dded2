"""A run goes on with the set that it was started with, to the last number that training reads."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import NARROW, refusal
from survivors import change_json, snapshot

from datasets_gen.layout import Split, write_dataset
from reason.cli import main
from reason.data import PuzzleData

EMBEDDED = ["model.mixer=attention", "model.positions=rotary", "model.num_heads=2", "model.puzzle_emb_len=1"]


@pytest.fixture
def copied(here: Path) -> Path:
    """A set with everything that training reads: identifiers, groups of several puzzles of several examples."""
    tokens = np.arange(12 * 16).reshape(12, 16) ** 2 % 5 + 1
    split = Split(tokens, tokens, np.arange(6) % 2, np.array([0, 2, 4, 6, 8, 10, 12]), np.array([0, 2, 4, 6]))
    write_dataset(
        here / "set", {"train": split, "validation": split}, task={}, vocab_size=6, identifiers=["a", "b", "c"]
    )
    return here / "set"


def an_array(split: str, name: str, change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        file = folder / split / f"all__{name}.npy"
        np.save(file, change(np.load(file)))

    return apply


def stated(split: str, **fields: object) -> Callable[[Path], None]:
    return lambda folder: change_json(folder / split / "dataset.json", lambda tree: tree.update(fields))


def with_zero(array: np.ndarray) -> np.ndarray:
    return np.where(np.arange(array.size).reshape(array.shape) == 5, 0, array).astype(array.dtype)


CHANGES: dict[str, tuple[str, Callable[[Path], None]]] = {
    "inputs": ("train", an_array("train", "inputs", with_zero)),
    "labels": ("train", an_array("train", "labels", with_zero)),
    "identifiers": ("train", an_array("train", "puzzle_identifiers", lambda a: 1 - a)),
    "examples of puzzles": ("train", an_array("train", "puzzle_indices", lambda _: np.array([0, 1, 4, 6, 8, 10, 12]))),
    "puzzles of groups": ("train", an_array("train", "group_indices", lambda _: np.array([0, 1, 4, 6]))),
    "ignored label": ("train", stated("train", ignore_label_id=3)),
    "task": ("train", stated("train", task={"name": "other"})),
    "vocabulary": ("train", stated("train", vocab_size=9)),
    "validation inputs": ("validation", an_array("validation", "inputs", with_zero)),
    "validation gone": ("validation", lambda folder: shutil.rmtree(folder / "validation")),
}


def test_a_change_of_a_split_is_seen(copied: Path, here: Path) -> None:
    for change, (split, apply) in list(CHANGES.items())[:-1]:
        folder = shutil.copytree(copied, here / change)
        was = PuzzleData(folder, split).fingerprint
        apply(folder)
        assert PuzzleData(folder, split).fingerprint != was, change


def test_a_set_that_changed_is_refused(copied: Path, here: Path) -> None:
    words = ["train", "sudoku-4x4", "data=set", *NARROW, *EMBEDDED, "training.monitor.every=2", "run=r"]
    assert main([*words, "--max-steps", "2"]) == 0
    assert set(json.loads((here / "r/config.json").read_text())["training_set"]) == {"train", "validation"}
    before = snapshot(here / "r")
    shutil.copytree(copied, here / "whole")
    for change in ("inputs", "validation inputs", "validation gone"):
        split, apply = CHANGES[change]
        shutil.rmtree(copied)
        shutil.copytree(here / "whole", copied)
        apply(copied)
        told = f"set is not the set that r was started with, or its {split} split has changed since"
        refusal("train run=r --resume", told)
        assert snapshot(here / "r") == before


def test_what_training_does_not_read_may_change(copied: Path, here: Path) -> None:
    """Where it lies, who made it, how hard its puzzles are, in which type of number its tokens are stored."""
    was = PuzzleData(copied, "train").fingerprint
    copied.rename(here / "moved")
    stated("train", provenance={"command": "other"}, mean_puzzle_examples=9.0)(here / "moved")
    np.save(here / "moved/train/all__ratings.npy", np.arange(6))
    an_array("train", "inputs", lambda array: array.astype(np.int32))(here / "moved")
    assert PuzzleData(here / "moved", "train").fingerprint == was
