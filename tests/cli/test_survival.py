"""A run that something happened to: a full disk, no permission, a moved set, another type of numbers."""

import json
import os
import shutil
from pathlib import Path
from unittest.mock import Mock

import pytest
from conftest import NARROW, output, refusal
from survivors import entry

from reason.cli import main
from reason.config.overrides import read_config
from reason.runs import directory as runs
from reason.training import checkpoint
from reason.training.checkpoint import checkpoints
from reason.training.log import read_metrics


def test_what_may_change_when_training_goes_on(half: Path, sudoku_4x4: Path) -> None:
    refusal("train run=half optimizer.lr=1 --resume", "leave out optimizer.lr (what may change:", "training.tracker")
    assert main(["train", "run=half", "training.log_every=1", "device=cpu", "--resume"]) == 0


def test_settings_that_left_are_read_where_they_had_the_value_of_now(half: Path) -> None:
    """And those of a missing extension where they are off."""
    whole = read_config(half / "config.json")
    for key, value in (("optimizer.a", 1.0), ("evaluation.gone", False), ("loss.weights.gone", 0.0)):
        entry("config.json", f"config.{key}", value)(half)
    assert read_config(half / "config.json") == whole


def test_another_type_of_numbers_is_refused(half: Path) -> None:
    """`auto` on a machine with other hardware: the type is asked for by name."""
    dtype = json.loads((checkpoints(half)[-1] / "state.json").read_text())["dtype"]
    mend, other = ("bf16", "fp32") if dtype == "bfloat16" else ("fp32", "bf16")
    told = f"was computed in {dtype}", f"type training.precision={mend}"
    refusal(f"train run=half training.precision={other} --resume", *told)
    assert main(["train", "run=half", f"training.precision={mend}", "--resume"]) == 0


def test_a_presets_own_set_is_made_again_where_it_is_missing(here: Path) -> None:
    """An archive carried to a bare machine goes on."""
    assert main(["train", "sudoku-4x4", *NARROW, "run=r", "--max-steps", "2"]) == 0
    shutil.rmtree(here / "data")
    output("train run=r --resume", "making it: python -m datasets_gen sudoku --size 4")


def test_a_full_disk_names_what_is_safe(half: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(checkpoint, "save_file", Mock(side_effect=OSError(28, "No space left on device", "somewhere")))
        refusal(
            "train run=half --resume",
            "No space left on device: free some space; step-000002 is safe; then python train.py run=half --resume",
        )
    assert [path.name for path in checkpoints(half)] == ["step-000000", "step-000002"]


def test_a_read_only_run_is_refused(half: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() == 0:  # to whom nothing is read-only
        monkeypatch.setattr(runs.FileLock, "acquire", Mock(side_effect=PermissionError(13, "Permission denied")))
    half.chmod(0o555)
    try:
        refusal("train run=half --resume", "half cannot be written to (Permission denied); copy it")
    finally:
        half.chmod(0o755)


def test_what_changed_when_training_went_on_stays_so(half: Path, sudoku_4x4: Path, here: Path) -> None:
    """The set is moved and named once; the line that resumes and evaluate.py then find it."""
    shutil.copytree(sudoku_4x4, here / "moved")
    output(
        ["train", "run=half", f"data={here / 'moved'}", "--resume", "--max-steps", "3"],
        "go on with: python train.py run=half --resume",
    )
    assert read_config(half / "config.json").data.directory == str(here / "moved")
    shutil.copytree(half, here / "other")
    assert main(["train", "run=half", "data=nowhere", "--resume"]) == 1
    assert read_config(half / "config.json").data.directory == str(here / "moved")  # a refused word changes nothing


def test_lost_metrics_are_said_and_leave_whole_lines(half: Path, capsys: pytest.CaptureFixture[str]) -> None:
    metrics = half / "metrics.jsonl"
    metrics.write_bytes(metrics.read_bytes()[:-5])
    assert main(["train", "run=half", "--resume"]) == 0
    assert "metrics.jsonl has lost lines" in capsys.readouterr().err
    assert [line["step"] for line in read_metrics(half)] == [4]
