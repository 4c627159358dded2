"""Sets and checkpoints that a run cannot use: refused in one line."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import output, refusal
from survivors import change_json
from test_commands import train

from reason import cli


def test_resume_refuses_another_set_and_torn_checkpoints(sudoku_4x4: Path, here: Path) -> None:
    output("generate sudoku --size 4 --train 24 --test 12 --seed 2 --output-dir other")
    assert train(sudoku_4x4, "run=r", "--max-steps", "2") == 0
    refusal("train run=r data=other --resume", "other is not the set that r was started with")
    for file in (here / "r/checkpoints").rglob("*.safetensors"):
        file.write_bytes(b"torn")
    metrics = (here / "r/metrics.jsonl").read_bytes()
    refusal("train run=r --resume", "no checkpoint of r can be read")
    assert (here / "r/metrics.jsonl").read_bytes() == metrics


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
def test_a_corrupt_set_is_refused(
    damage: Callable[[Path], object], words: str, sudoku_4x4: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(sudoku_4x4, here / "set")
    damage(here / "set/train/all__labels.npy")
    assert train(here / "set", "run=r") == 1
    assert words in capsys.readouterr().err
    assert not (here / "r").exists()


def test_a_set_of_another_shape_is_refused_with_both_shapes(sudoku_4x4: Path, here: Path) -> None:
    output("generate sudoku --size 6 --train 2 --test 2 --seed 0 --output-dir six")
    assert train(sudoku_4x4, "run=r") == 0
    refusal("evaluate r data=six", "six has 36 cells", "built for 16 cells")
    assert not (here / "r/evaluation").exists()
    refusal("evaluate r evaluation.split=validation", "has no split 'validation'; it has train, test")


def test_a_causal_set_is_refused_by_a_model_that_sees_all_cells(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output("generate addition --digits 2 --train 20 --test 5 --output-dir sums")
    assert train(here / "sums", "run=r") == 1
    assert "type data=DIR of a set made with --blank-answer" in capsys.readouterr().err
    assert not (here / "r").exists()


def test_a_full_disk_is_one_line(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def full(_: list[str]) -> int:
        raise OSError(28, "No space left on device", "runs/x")

    assert cli.guarded(full, []) == 1
    assert capsys.readouterr().err == "error: No space left on device (runs/x)\n"


@pytest.mark.parametrize("named", ["{},", ",{}", "{},,{}", ""])
def test_an_empty_name_between_commas_is_refused(named: str, sudoku_4x4: Path, here: Path) -> None:
    """It would be the folder that one stands in."""
    typed = named.replace("{}", str(sudoku_4x4))
    refusal(["train", "sudoku-4x4", f"data={typed}"], f"data={typed} names an empty folder; type data=DIR")
    assert list(here.iterdir()) == []
