"""Ctrl-C and partners that stop: one line, the right status, nothing half done."""

import json
import os
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from conftest import TINY
from peer import in_world
from test_distributed import free_port

from reason.extensions.torchrun import world

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_a_partner_that_stops_is_not_waited_for_for_ever(
    sudoku_4x4: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second of two processes is stopped (SIGSTOP) in its third step; the first says so and ends."""
    port, run = free_port(), tmp_path / "run"
    pairs = [
        f"{key}={value}" for key, value in (TINY | {"training.steps": "100", "training.checkpoint_every": "1"}).items()
    ]
    words = ["train", "sudoku-4x4", f"data={sudoku_4x4}", f"run={run}", *pairs]
    (tmp_path / "plan.json").write_text(json.dumps([{"port": port, "words": words, "stops": 3}]))
    peer = subprocess.Popen(
        [sys.executable, str(ROOT / "tests/extensions/torchrun/peer.py"), str(tmp_path / "plan.json")],
        env=os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'tests/training'}"},
    )
    try:
        monkeypatch.setattr(world, "PATIENCE", timedelta(seconds=10))
        assert in_world(0, port, words) == 1
        (error,) = (line for line in capsys.readouterr().err.splitlines() if line.startswith("error: "))
        assert error == (
            "error: another process has not answered in time: it is stopped, stuck or gone; the newest "
            "checkpoint is safe, go on with --resume"
        )
        assert (run / "checkpoints/step-000002/manifest.json").exists()
    finally:
        peer.send_signal(signal.SIGCONT)
        peer.kill()
        peer.wait()
