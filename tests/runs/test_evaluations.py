"""Where evaluations are written, and what is said of settings that change nothing in them."""

import json
from pathlib import Path

import pytest
from conftest import make_set, output, refusal

from reason.cli import main

BOARD = "1... .... .... ...2"


def test_a_model_of_the_package_writes_below_no_run_of_that_name(half: Path, here: Path) -> None:
    """Evaluations of one's own run runs/sudoku-6x6 are neither replaced nor compared as the model's."""
    make_set("sudoku --size 6 --train 0 --test 4 --seed 1", here / "data/sudoku-6x6")
    (here / "runs").mkdir()
    half.rename(here / "runs/sudoku-6x6")
    before = sorted(here.rglob("*"))
    refusal(
        "evaluate sudoku-6x6 steps=1",
        "are written to runs/sudoku-6x6, which is a run: move it away",
    )
    assert sorted(here.rglob("*")) == before
    assert main(["evaluate", "runs/sudoku-6x6", "steps=1", "name=mine"]) == 0
    refusal("compare sudoku-6x6", "sudoku-6x6 holds no evaluation")


def test_settings_of_a_model_that_change_nothing_are_named(half: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loud = "model.noise=additive"
    said = f"{loud} changes nothing in this evaluation: it is only added in training"
    output(["evaluate", "half", "steps=1", loud], said)
    main(["solve", "half", BOARD, "steps=1", "--restarts", "2", "--json", loud])
    streams = capsys.readouterr()
    json.loads(streams.out)
    assert streams.err.replace("answer", "evaluation").strip() == said


def test_a_set_that_gives_no_name_asks_for_one(half: Path, here: Path) -> None:
    make_set("sudoku --size 4 --train 0 --test 4 --seed 1", here / ".set")
    told = ".set-test-T1 is no plain folder name for this evaluation; type name=NAME"
    refusal("evaluate half data=.set steps=1", told)
