"""reason ablate: the processes that train its runs are stopped, and what became of them is said."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from reason.cli import main


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_stops_what_is_at_work(
    number: signal.Signals, status: int, sudoku_4x4: Path, here: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Each process gets Ctrl-C, at which it saves, and is waited for."""
    heard: list[object] = []

    class AtWork:
        """Stands for a process that trains; the command gets the signal meanwhile."""

        returncode = None

        def __init__(self, *_: object, **__: object):
            os.kill(os.getpid(), number)

        def poll(self) -> None:
            """Not done."""

        def send_signal(self, sent: int) -> None:
            """Noted."""
            heard.append(sent)

        def wait(self) -> None:
            """Noted, too."""
            heard.append("waited for")

    monkeypatch.setattr("reason.runs.queue.subprocess.Popen", AtWork)
    assert main(["ablate", "sudoku-4x4", f"data={sudoku_4x4}", "model.h_cycles=2,1"]) == status
    assert heard == [signal.SIGINT, "waited for"]
    assert "6 runs are left; the same command goes on with them" in capsys.readouterr().out


def test_nohup_keeps_the_hang_up_away(monkeypatch: pytest.MonkeyPatch) -> None:
    from reason.training.interrupt import StopRequest

    previous = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopRequest(others=[signal.SIGHUP]) as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            assert stop.name is None
    finally:
        signal.signal(signal.SIGHUP, previous)
