"""Checkpoints moved away, and trainings ended before their first step."""

import shutil
from pathlib import Path

import pytest
import torch
from conftest import NARROW, refusal
from survivors import Damage, same, snapshot

from reason.cli import main
from reason.runs.directory import locked
from reason.training.checkpoint import checkpoints
from reason.training.loop import Trainer

RESUME = ["train", "run=half", "--resume"]
LOSSES: dict[str, Damage] = {  # of a run's checkpoints
    "gone": lambda run: shutil.rmtree(run / "checkpoints"),
    "emptied": lambda run: (LOSSES["gone"](run), (run / "checkpoints").mkdir()),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_a_run_that_has_lost_its_checkpoints_is_left_alone(loss: str, half: Path) -> None:
    LOSSES[loss](half)
    before = snapshot(half)
    refusal(RESUME, "half has been trained and its checkpoints are gone; put half/checkpoints back")
    assert snapshot(half) == before


def test_a_run_that_died_before_its_first_step_begins(half: Path, here: Path) -> None:
    """Killed between config.json and its first checkpoint: nothing is lost, so it starts."""
    shutil.copytree(half, here / "whole")
    shutil.rmtree(half / "checkpoints")
    (half / "metrics.jsonl").unlink()
    (half / "checkpoints/.step-000000.partial").mkdir(parents=True)
    assert main(RESUME) == 0
    assert main(["train", "run=whole", "--resume"]) == 0
    assert same(half, here / "whole")


def test_a_locked_run_is_trained_by_one_process(half: Path) -> None:
    with locked(half):
        refusal(RESUME, "half is being trained by another process")
    assert main(RESUME) == 0


def test_a_run_is_begun_with_a_checkpoint(sudoku_4x4: Path, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed within its first step, far from the first due checkpoint, it goes on from step 0."""

    def killed(_: Trainer) -> torch.Tensor:
        raise KeyboardInterrupt

    words = ["train", "sudoku-4x4", f"data={sudoku_4x4}", *NARROW]
    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "optimizer_step", killed)
        assert main([*words, "run=r"]) == 130
    assert [path.name for path in checkpoints(here / "r")] == ["step-000000"]
    assert main(["train", "run=r", "--resume"]) == 0
    assert main([*words, "run=whole"]) == 0
    assert same(here / "r", here / "whole")
