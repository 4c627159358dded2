"""Sets and checkpoints that a run cannot use: refused in one line."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import NARROW, make_set, refusal
from survivors import change_json

from reason import Dataset
from reason.cli import main


def test_resume_refuses_another_set_and_torn_checkpoints(half: Path, here: Path) -> None:
    make_set("sudoku --size 4 --train 24 --test 12 --seed 2", here / "other")
    refusal("train run=half data=other --resume", "other is not the set that half was started with")
    for file in (half / "checkpoints").rglob("*.safetensors"):
        file.write_bytes(b"torn")
    metrics = (half / "metrics.jsonl").read_bytes()
    refusal("train run=half --resume", "no checkpoint of half can be read")
    assert (half / "metrics.jsonl").read_bytes() == metrics


def out_of_vocabulary(labels: Path) -> None:
    array = np.load(labels)
    array[3, 5] = 77
    np.save(labels, array)


def no_vocabulary(labels: Path) -> None:
    change_json(labels.with_name("dataset.json"), lambda tree: tree.pop("vocab_size"))


@pytest.mark.parametrize(("damage", "words"), [
    (lambda labels: labels.write_bytes(labels.read_bytes()[:-50]), "all__labels.npy cannot be read"),
    (out_of_vocabulary, "token 77 at example 3, cell 5 is outside the vocabulary 0..5"),
    (no_vocabulary, "dataset.json: vocab_size: Field required"),
    (Path.unlink, "all__labels.npy is missing"),
], ids=["truncated npy", "labels out of vocabulary", "a field is missing", "a file is missing"])  # fmt: skip
def test_a_corrupt_set_is_refused(damage: Callable[[Path], object], words: str, sudoku_4x4: Path, here: Path) -> None:
    shutil.copytree(sudoku_4x4, here / "set")
    damage(here / "set/train/all__labels.npy")
    refusal(["train", "sudoku-4x4", "data=set", *NARROW, "run=r"], words)
    assert not (here / "r").exists()


def test_a_set_of_another_shape_is_refused_with_both_shapes(half: Path, here: Path) -> None:
    make_set("sudoku --size 6 --train 2 --test 2 --seed 0", here / "six")
    refusal("evaluate half data=six", "six has 36 cells", "built for 16 cells")
    assert not (half / "evaluation").exists()
    refusal("evaluate half evaluation.split=validation", "has no split 'validation'; it has train, test")


def test_a_causal_set_is_refused_by_a_model_that_sees_all_cells(addition: Path, here: Path) -> None:
    told = "type data=DIR of a set made with --blank-answer"
    refusal(["train", "sudoku-4x4", f"data={addition}", *NARROW, "run=r"], told)
    assert not (here / "r").exists()


def test_a_set_without_a_scored_label_is_refused(here: Path) -> None:
    questions, labels = np.ones((8, 16), int), np.full((8, 16), -100)
    Dataset.from_arrays("blank", train=(questions, labels))
    refusal(["train", "sudoku-4x4", "data=blank", *NARROW, "run=r"], "blank: no label of the train split is scored")
    assert not (here / "r").exists()
    labels[7, 15] = 1  # one is enough
    Dataset.from_arrays("one", train=(questions, labels))
    assert main(["train", "sudoku-4x4", "data=one", *NARROW, "run=r"]) == 0


@pytest.mark.parametrize("named", ["{},", ",{}", "{},,{}", ""])
def test_an_empty_name_between_commas_is_refused(named: str, sudoku_4x4: Path, here: Path) -> None:
    """It would be the folder that one stands in."""
    typed = named.replace("{}", str(sudoku_4x4))
    refusal(["train", "sudoku-4x4", f"data={typed}"], f"data={typed} names an empty folder; type data=DIR")
    assert list(here.iterdir()) == []
