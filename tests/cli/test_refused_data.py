"""Sets and checkpoints that a run cannot use: refused in one line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from test_commands import train

from reason import cli
from reason.cli import main


def test_resume_refuses_another_set_and_torn_checkpoints(
    sudoku_4x4: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(
            [
                "generate",
                "sudoku",
                "--size",
                "4",
                "--train",
                "24",
                "--test",
                "12",
                "--seed",
                "2",
                "--output-dir",
                "other",
            ]
        )
        == 0
    )
    assert train(sudoku_4x4, "run=r", "--max-steps", "2") == 0
    assert main(["train", "run=r", "data=other", "--resume"]) == 1
    assert "other is not the set that r was started with" in capsys.readouterr().err
    for file in (here / "r/checkpoints").rglob("*.safetensors"):
        file.write_bytes(b"torn")
    metrics = (here / "r/metrics.jsonl").read_bytes()
    assert main(["train", "run=r", "--resume"]) == 1
    assert "no checkpoint of r can be read" in capsys.readouterr().err
    assert (here / "r/metrics.jsonl").read_bytes() == metrics


def damaged(directory: Path, how: str) -> None:
    folder = directory / "train"
    labels = folder / "all__labels.npy"
    match how:
        case "truncated npy":
            labels.write_bytes(labels.read_bytes()[:-50])
        case "labels out of vocabulary":
            array = np.load(labels)
            array[3, 5] = 77
            np.save(labels, array)
        case "a field is missing":
            path = folder / "dataset.json"
            tree = json.loads(path.read_text())
            del tree["vocab_size"]
            path.write_text(json.dumps(tree))
        case "a file is missing":
            labels.unlink()


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("truncated npy", "all__labels.npy cannot be read"),
        ("labels out of vocabulary", "token 77 at example 3, cell 5 is outside the vocabulary 0..5"),
        ("a field is missing", "dataset.json: vocab_size: Field required"),
        ("a file is missing", "all__labels.npy is missing"),
    ],
)
def test_a_corrupt_set_is_refused(
    how: str, words: str, sudoku_4x4: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(sudoku_4x4, here / "set")
    damaged(here / "set", how)
    assert train(here / "set", "run=r") == 1
    assert words in capsys.readouterr().err
    assert not (here / "r").exists()


def test_a_set_of_another_shape_is_refused_with_both_shapes(
    sudoku_4x4: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = "generate sudoku --size 6 --train 2 --test 2 --seed 0 --output-dir six"
    assert main(arguments.split()) == 0
    assert train(sudoku_4x4, "run=r") == 0
    assert main(["evaluate", "r", "data=six"]) == 1
    error = capsys.readouterr().err
    assert "six has 36 cells" in error
    assert "built for 16 cells" in error
    assert not (here / "r/evaluation").exists()
    assert main(["evaluate", "r", "evaluation.split=validation"]) == 1
    assert "has no split 'validation'; it has train, test" in capsys.readouterr().err


def test_a_causal_set_is_refused_by_a_model_that_sees_all_cells(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "addition", "--digits", "2", "--train", "20", "--test", "5", "--output-dir", "sums"]) == 0
    assert train(here / "sums", "run=r") == 1
    assert "type data=DIR of a set made with --blank-answer" in capsys.readouterr().err
    assert not (here / "r").exists()


def test_a_full_disk_is_one_line(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def full(_: list[str]) -> int:
        raise OSError(28, "No space left on device", "runs/x")

    assert cli.guarded(full, []) == 1
    assert capsys.readouterr().err == "error: No space left on device (runs/x)\n"


@pytest.mark.parametrize("named", ["{},", ",{}", "{},,{}", ""])
def test_an_empty_name_between_commas_is_refused(
    named: str, sudoku_4x4: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It would be the folder that one stands in."""
    typed = named.replace("{}", str(sudoku_4x4))
    assert main(["train", "sudoku-4x4", f"data={typed}"]) == 1
    assert f"data={typed} names an empty folder; type data=DIR" in capsys.readouterr().err
    assert list(here.iterdir()) == []
