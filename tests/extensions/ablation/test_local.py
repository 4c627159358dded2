"""reason ablate on this machine: its processes are stopped, what became of them is said, and the command goes on."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import Mock, call

import pytest
from conftest import refusal
from filelock import FileLock

from reason.cli import main
from reason.extensions.ablation.command import asked, work
from reason.extensions.ablation.local import why_ended
from reason.extensions.ablation.variants import open_folder
from reason.runs.build import start
from reason.training.interrupt import StopRequest

SMALL = [
    "model.hidden_size=16",
    "training.batch_size=8",
    "evaluation.steps=1",
]


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_what_is_at_work(
    number: signal.Signals, status: int, sudoku_4x4: Path, here: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Each process gets Ctrl-C, at which it saves, and is waited for."""
    at_work = Mock(returncode=None)
    at_work.poll.side_effect = [None] * 50  # so many looks until the signal is heard

    def begun(*_: object, **__: object) -> Mock:
        os.kill(os.getpid(), number)  # while the process trains
        return at_work

    monkeypatch.setattr("reason.extensions.ablation.local.subprocess.Popen", begun)
    assert main(["ablate", "sudoku-4x4", f"data={sudoku_4x4}", "model.h_cycles=2,1"]) == status
    assert [called for called in at_work.mock_calls if called[0] != "poll"] == [
        call.send_signal(signal.SIGINT),
        call.wait(),
    ]
    said = capsys.readouterr().out
    assert "00-seed0  h_cycles=2  begins, log runs/ablation-sudoku-4x4/00-seed0.log" in said
    assert "6 runs are left, 0 of them failed; the same command goes on with them" in said


def test_a_folder_is_one_command_s_at_a_time(sudoku_4x4: Path, here: Path) -> None:
    (here / "a").mkdir()
    with FileLock("a/.lock"):
        words = ["ablate", "sudoku-4x4", f"data={sudoku_4x4}", "model.h_cycles=2,1", "--out", "a"]
        refusal(words, "another reason ablate works in a; wait for it, or name another --out DIR")
    assert os.listdir("a") == [".lock"]


@pytest.mark.slow
def test_a_killed_command_goes_on_to_the_same_table(sudoku_4x4: Path, here: Path) -> None:
    """Killed (-9) while a run trains, which ends its process; then interrupted; each run resumes at its checkpoint."""
    words = ["sudoku-4x4", f"data={sudoku_4x4}", "ema.decay=0.99,0.5", "seeds=1", *SMALL, "training.steps=200",
             "training.checkpoint_every=10", "training.log_every=10", "training.monitor.puzzles=0"]  # fmt: skip
    command = [sys.executable, "-m", "reason", "ablate", *words, "--out"]
    run, saved = asked(words, False).cells(Path("a"))[0].run, 0
    for kind in (signal.SIGKILL, signal.SIGINT):
        with subprocess.Popen([*command, "a"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            while max((int(step.name[5:]) for step in run.glob("checkpoints/step-*")), default=0) <= saved:
                assert process.poll() is None
                time.sleep(0.05)
            process.send_signal(kind)
        saved = max(int(step.name[5:]) for step in run.glob("checkpoints/step-*"))
        assert 0 < saved < 200
    for folder in ("a", "b"):
        said = subprocess.run([*command, folder], capture_output=True, text=True, check=True).stdout
        assert "2 of 2 runs" in said
    assert "error" not in Path("a/00-seed0.log").read_text()
    steps = [line["step"] for line in map(json.loads, (run / "metrics.jsonl").read_text().splitlines())]
    assert steps == list(range(10, 201, 10))
    assert Path("a/summary/summary.json").read_text() == Path("b/summary/summary.json").read_text()


def test_a_cluster_s_signals_stop_once() -> None:
    """Another kind is no second Ctrl-C."""
    with StopRequest() as stop:
        for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT, signal.SIGUSR2):
            os.kill(os.getpid(), number)
        assert stop.name == "SIGUSR1"
    with StopRequest():
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_the_steps_of_a_torn_checkpoint_are_trained_again(half: Path, sudoku_4x4: Path) -> None:
    """The run is not evaluated at the checkpoint before it."""
    folder = half.parent / "a"
    words = ["model.hidden_size=16", "training.steps=4", "training.batch_size=8", "evaluation.steps=2"]
    config = json.loads((half / "config.json").read_text())["config"]
    own = f"training.log_every={config['training']['log_every']}"
    ablation = asked(["sudoku-4x4", f"data={sudoku_4x4}", "ema.decay=0.99,0.5", "seeds=1", *words, own], False)
    folder.mkdir()
    open_folder(folder, ablation)
    cell = ablation.cells(folder)[0]
    with contextlib.ExitStack() as held:
        start(cell.config, cell.run, held, make_data=False).train(max_steps=3)
    run = folder / "00-seed0"
    shutil.copytree(run / "checkpoints/step-000003", run / "checkpoints/step-000004")  # its state is of step 3
    assert work(folder, "00-seed0") == 0
    results = json.loads((run / "evaluation/ablation/results.json").read_text())
    assert results["checkpoint_step"] == 4


REASONS = {
    "killed": (-9, "error: no space\n", "killed by signal 9, perhaps out of memory"),
    "told to end": (-15, "", "killed by signal 15"),
    "its own error": (1, "error: no memory\nerror: no space\n", "no space"),
    "srun's error": (0, "submitit INFO (10:00) - Loading\nsrun: error: n1: task 0: Killed\n", "n1: task 0: Killed"),
    "silent": (1, "training:   0%|          | 0/3 [00:00<?, ?step/s]\r", "no word"),
}  # fmt: skip


@pytest.mark.parametrize(("status", "text", "said"), REASONS.values(), ids=REASONS)
def test_why_a_process_ended(status: int, text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "log").write_text(text)
    assert why_ended(status, tmp_path / "log").startswith(said)
