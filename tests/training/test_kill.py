"""kill -9 in the middle of an optimizer step: what was saved goes on to the bit."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from conftest import TINY
from test_loop import VARIANTS, hold_equal

from reason.cli import main
from reason.training.checkpoint import checkpoints
from reason.training.log import read_metrics

DIES_WITHIN_STEP_10 = """
import os, signal, sys
from reason.cli import main
from reason.training.optim import Optimizers
whole = Optimizers.step
Optimizers.step = lambda self, step: os.kill(os.getpid(), signal.SIGKILL) if step == 9 else whole(self, step)
main(["train", *sys.argv[1:]])
"""


def test_twelve_steps_are_six_and_a_kill_and_the_rest(monitored_4x4: Path, tmp_path: Path) -> None:
    """The checkpoint of step 6 goes on; weights, EMA, carry and metrics are equal."""
    parts, whole = tmp_path / "parts", tmp_path / "whole"
    pairs = TINY | VARIANTS["hrm"] | {"training.steps": "12", "training.checkpoint_every": "6"}
    words = ["sudoku-4x4", f"data={monitored_4x4}", *(f"{key}={value}" for key, value in pairs.items())]
    command = [sys.executable, "-c", DIES_WITHIN_STEP_10, *words, f"run={parts}"]
    killed = subprocess.run(command, capture_output=True, check=False, cwd=tmp_path, env=os.environ)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert read_metrics(parts)[-1]["step"] == 8
    assert [path.name for path in checkpoints(parts)] == ["step-000000", "step-000006"]
    assert main(["train", f"run={parts}", "--resume"]) == 0
    assert main(["train", *words, f"run={whole}"]) == 0
    hold_equal(parts, whole)
