"""reason ablate: the processes that train its runs are stopped, and what became of them is said."""

import contextlib
import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock, call

import pytest
from conftest import make_set, refusal

from reason.ablation import open_folder, read_sets, refuse_unreadable_sets
from reason.ablation.queue import why_ended
from reason.cli import main
from reason.cli.ablate import asked, work
from reason.errors import ConfigError
from reason.runs.build import start
from reason.training.interrupt import StopRequest


@contextlib.contextmanager
def handled(number: signal.Signals, handler: signal.Handlers) -> Iterator[None]:
    """A signal's handler within the block."""
    previous = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, previous)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_stops_what_is_at_work(
    number: signal.Signals, status: int, sudoku_4x4: Path, here: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Each process gets Ctrl-C, at which it saves, and is waited for; the tests themselves may run under nohup."""
    at_work = Mock(returncode=None)
    at_work.poll.side_effect = [None] * 50  # so many looks until the signal is heard

    def begun(*_: object, **__: object) -> Mock:
        os.kill(os.getpid(), number)  # while the process trains
        return at_work

    monkeypatch.setattr("reason.ablation.queue.subprocess.Popen", begun)
    with handled(number, signal.SIG_DFL):
        assert main(["ablate", "sudoku-4x4", f"data={sudoku_4x4}", "model.h_cycles=2,1"]) == status
    assert [called for called in at_work.mock_calls if called[0] != "poll"] == [
        call.send_signal(signal.SIGINT),
        call.wait(),
    ]
    assert "6 runs are left; the same command goes on with them" in capsys.readouterr().out


def test_a_cluster_s_signals_stop_once() -> None:
    """Whichever comes first, before the inner block or in it; another kind is no second Ctrl-C."""
    with StopRequest() as outer:
        os.kill(os.getpid(), signal.SIGUSR1)
        with StopRequest() as inner:
            assert inner.name == "SIGUSR1"
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2):
                os.kill(os.getpid(), number)
        assert (outer.name, inner.name) == ("SIGUSR1", "SIGUSR1")
    with StopRequest():
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_nohup_keeps_the_hang_up_away() -> None:
    with handled(signal.SIGHUP, signal.SIG_IGN), StopRequest(others=[signal.SIGHUP]) as stop:
        os.kill(os.getpid(), signal.SIGHUP)
        assert stop.name is None


def test_the_steps_of_a_torn_checkpoint_are_trained_again(half: Path, sudoku_4x4: Path) -> None:
    """The run is not evaluated at the checkpoint before it."""
    folder = half.parent / "a"
    words = ["model.hidden_size=16", "training.steps=4", "training.batch_size=8", "evaluation.steps=2"]
    config = json.loads((half / "config.json").read_text())["config"]
    own = f"training.log_every={config['training']['log_every']}"
    ablation = asked(["sudoku-4x4", f"data={sudoku_4x4}", "ema.decay=0.99,0.5", "seeds=1", *words, own], False)
    open_folder(folder, ablation)
    cell = ablation.cells(folder)[0]
    with contextlib.ExitStack() as held:
        start(cell.config, cell.run, held, make_data=False).train(max_steps=3)
    run = folder / "00-seed0"
    shutil.copytree(run / "checkpoints/step-000003", run / "checkpoints/step-000004")  # its state is of step 3
    assert work(folder, "00-seed0") == 0
    results = json.loads((run / "evaluation/ablation/results.json").read_text())
    assert results["checkpoint_step"] == 4


@pytest.mark.parametrize("text", ["{", '{"run": "00-seed0"}'])
def test_damaged_results_are_named(text: str, here: Path) -> None:
    cell = asked(["sudoku-4x4", "model.h_cycles=2,1"], False).cells(here)[0]
    file = cell.run / "evaluation/ablation/results.json"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    with pytest.raises(ConfigError, match=rf"{file}.*; or remove it to evaluate again"):
        cell.results()


def test_why_a_process_ended(tmp_path: Path) -> None:
    """A bar's last state is no reason."""
    log = tmp_path / "log"
    log.write_text(
        "error: no space\ntraining:   0%|          | 0/3 [00:00<?, ?step/s]\rtraining:  33%|███       | 1/3 [00:02"
    )
    assert why_ended(-9, log) == "killed by signal 9 (SIGKILL), perhaps out of memory"
    assert why_ended(-15, log) == "killed by signal 15 (SIGTERM)"
    assert why_ended(1, log) == "no space"
    log.write_text(
        "error: no space\nsubmitit INFO (10:00) - Exiting\nsrun: error: n1: task 0: Exited with exit code 1\n"
    )
    assert why_ended(1, log) == "no space"
    log.write_text("submitit INFO (10:00) - Loading\nsrun: error: n1: task 0: Killed\n")
    assert why_ended(0, log) == "srun: error: n1: task 0: Killed"
    log.write_text("12step [00:03, 4.00step/s]\n\n")
    assert why_ended(1, log) == "no word"


def test_runs_of_another_set_are_no_ablation(sudoku_4x4: Path, here: Path) -> None:
    """A set of other puzzles at the same folder is noticed before anything is trained, and by each run's process."""
    shutil.copytree(sudoku_4x4, here / "set")
    words = ["sudoku-4x4", "data=set", "ema.decay=0.99,0.5", "seeds=1", "model.hidden_size=16", "training.batch_size=8"]
    ablation = asked(words, False)
    open_folder(here / "a", ablation, read_sets(ablation))
    shutil.rmtree(here / "set")
    make_set("sudoku --size 4 --train 24 --test 12 --seed 2", here / "set")
    told = "a was begun with another set than the train split there now, of set"
    refusal(["ablate", *words, "--out", "a"], told)
    with pytest.raises(ConfigError, match=told):
        open_folder(here / "a", ablation, read_sets(ablation))
    assert work(here / "a", "00-seed0") == 1
    assert not list((here / "a").glob("*/config.json"))


def test_figures_of_another_set_are_no_ablation(sudoku_4x4: Path, here: Path) -> None:
    """A set that no run was evaluated on yet may change; one that was may not."""
    small = ["model.hidden_size=16", "training.batch_size=8", "training.steps=1", "evaluation.steps=1"]
    words = ["sudoku-4x4", f"data={sudoku_4x4}", "ema.decay=0.99,0.5", "seeds=1", *small]
    for seed in (4, 5):
        shutil.rmtree(here / "other", ignore_errors=True)
        make_set(f"sudoku --size 4 --train 0 --test 6 --seed {seed}", here / "other")
        ablation, folder = asked(words, False, ["other"]), here / "a"
        open_folder(folder, ablation, read_sets(ablation))
    assert work(folder, "00-seed0") == 0
    open_folder(folder, ablation, read_sets(ablation))
    shutil.rmtree(here / "other")
    make_set("sudoku --size 4 --train 0 --test 6 --seed 6", here / "other")
    refusal(
        ["ablate", *words, "--also-on", "other", "--out", "a"],
        "a was begun with another set than the test split there now, of other",
        "put that set back, or name another --out DIR",
    )
    assert not (folder / "01-seed0").exists()


UNREADABLE = {
    "another family": (["--also-on", "sums"], "of name addition, the runs are trained on name sudoku"),
    "another size": (["--also-on", "larger"], "larger has "),
    "no such split": (["evaluation.split=nonsense"], "evaluation.split=nonsense: "),
    "no average": (["evaluation.weights=ema"], "evaluation.weights=ema: decay=none keeps no EMA"),
    "no best": (["evaluation.checkpoint=best"], "evaluation.checkpoint=best: nothing chooses it for decay=0.9"),
}


@pytest.mark.parametrize(("words", "said"), UNREADABLE.values(), ids=UNREADABLE)
def test_what_could_not_be_evaluated_is_not_trained(
    words: list[str], said: str, sudoku_4x4: Path, addition: Path, here: Path
) -> None:
    (here / "sums").symlink_to(addition)
    if "larger" in words:
        make_set("sudoku --size 6 --train 4 --test 4", here / "larger")
    sized = "model.mixer=mlp"
    refusal(["ablate", "sudoku-4x4", f"data={sudoku_4x4}", "ema.decay=0.9,none", sized, *words, "--out", "a"], said)
    assert not (here / "a").exists()


def test_a_model_of_any_size_reads_larger_sets(sudoku_4x4: Path, here: Path) -> None:
    """The check before training builds it without memory."""
    make_set("maze --size 5 --train 4 --test 4", here / "small")
    make_set("maze --size 7 --train 4 --test 4", here / "large")
    words = ["data=small", "model.h_cycles=2,1"]
    refuse_unreadable_sets(asked(["maze-10x10", *words], False, ["large"]))
    with pytest.raises(ConfigError, match=r"large has .*, h_cycles=2 is built for"):
        refuse_unreadable_sets(asked(["maze-10x10", "model.mixer=mlp", *words], False, ["large"]))
