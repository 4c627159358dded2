"""Checkpoints moved away, folders removed or taken over while training: noticed, and as little lost as can be."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from conftest import NARROW, refusal
from survivors import change_json, same, snapshot

from reason.cli import main
from reason.runs.directory import locked
from reason.training.checkpoint import checkpoints
from reason.training.loop import Trainer

RESUME = ["train", "run=half", "--resume"]


LOSSES: dict[str, Callable[[Path], object]] = {  # of a run's checkpoints
    "gone": lambda run: shutil.rmtree(run / "checkpoints"),
    "moved": lambda run: (run / "checkpoints").rename(run / "elsewhere"),
    "a dangling link": lambda run: (LOSSES["moved"](run), (run / "checkpoints").symlink_to("nowhere")),
    "a dangling link, no metrics": lambda run: (LOSSES["a dangling link"](run), (run / "metrics.jsonl").unlink()),
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
    for name in ("checkpoints", "metrics.jsonl", ".lock"):
        path = half / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    (half / "checkpoints/.step-000000.partial").mkdir(parents=True)
    assert main(RESUME) == 0
    assert main(["train", "run=whole", "--resume"]) == 0
    assert same(half, here / "whole")


def at_step(monkeypatch: pytest.MonkeyPatch, step: int, act: Callable[[], object]) -> None:
    """Do something in the middle of training, just before an optimizer step."""
    whole = Trainer.optimizer_step

    def acting(trainer: Trainer) -> torch.Tensor:
        if trainer.step == step:
            act()
        return whole(trainer)

    monkeypatch.setattr(Trainer, "optimizer_step", acting)


def test_a_folder_removed_while_training_comes_back_whole(
    half: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Noticed at the next save, status 1, and the run goes on to the bit."""
    shutil.copytree(half, here / "whole")
    assert main(["train", "run=whole", "--resume"]) == 0
    told = "half was removed while it was trained; it is there again with its config and the checkpoint"
    with monkeypatch.context() as patched:
        at_step(patched, 2, lambda: shutil.rmtree(half))
        refusal([*RESUME, "--max-steps", "3"], told)
    assert [path.name for path in checkpoints(half)] == ["step-000003"]
    assert main(RESUME) == 0
    assert same(half, here / "whole")


def test_a_lock_that_is_removed_lets_nobody_in(half: Path) -> None:
    with locked(half):
        (half / ".lock").unlink()
        refusal(RESUME, "half is being trained by another process")
    assert main(RESUME) == 0


def test_a_run_is_begun_with_a_checkpoint(sudoku_4x4: Path, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed within its first step, far from the first due checkpoint, it goes on from step 0."""

    def killed() -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        at_step(patched, 1, killed)
        assert main(["train", "sudoku-4x4", f"data={sudoku_4x4}", *NARROW, "run=r"]) == 130
    assert [path.name for path in checkpoints(here / "r")] == ["step-000000"]
    assert main(["train", "run=r", "--resume"]) == 0
    assert main(["train", "sudoku-4x4", f"data={sudoku_4x4}", *NARROW, "run=whole"]) == 0
    assert same(here / "r", here / "whole")


def test_numbers_are_those_of_ascii(half: Path, sudoku_4x4: Path, here: Path) -> None:
    """Folders that str.isdigit() takes for numbered, and int() does not."""
    for name in ("step-²", "step-٣", "step-", "step-3", "step-0000003", "step-x"):
        (half / "checkpoints" / name).mkdir()
    (here / "runs/sudoku-4x4-²").mkdir(parents=True)
    assert main(RESUME) == 0
    assert main(["train", "sudoku-4x4", f"data={sudoku_4x4}", *NARROW, "--max-steps", "1"]) == 0
    assert (here / "runs/sudoku-4x4-1/config.json").exists()
    assert main(["evaluate", "steps=1", "evaluation.boards=0"]) == 0  # the newest run


def test_config_and_checkpoint_are_of_one_model_to_whoever_reads_them(half: Path) -> None:
    # fits the weights, and is another model
    change_json(half / "config.json", lambda tree: tree["config"]["model"].update(l_cycles=9))
    for words in (["evaluate", "half"], ["solve", "half", "1..............."]):
        refusal(words, "was made with model.l_cycles=")
    assert os.listdir(half / "checkpoints")
