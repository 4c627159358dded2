"""Several machines work on one ablation in a folder that they share: each run is one machine's at a time."""

import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from ablation.test_ablate import Within
from conftest import refusal

from reason.ablation import Ablation, Cell, open_folder, refuse_alike
from reason.ablation.lease import TAKEN, alone, is_free, lease_of
from reason.ablation.queue import Queue
from reason.cli import main
from reason.cli.ablate import asked, work
from reason.training.interrupt import StopRequest

SMALL = ["model.hidden_size=16", "training.batch_size=8", "training.steps=2", "evaluation.steps=1",
         "evaluation.boards=0", "training.monitor.puzzles=0"]  # fmt: skip


@pytest.fixture
def plan(sudoku_4x4: Path, here: Path) -> list[str]:
    """The words of an ablation of two runs, in the folder `a`."""
    return ["sudoku-4x4", f"data={sudoku_4x4}", "ema.decay=0.99,0.5", "seeds=1", *SMALL, "--out", "a"]


@pytest.fixture
def ablation(plan: list[str]) -> Ablation:
    """It, in its folder, with no run begun."""
    ablation = asked(plan[:-2], False)
    open_folder(Path("a"), ablation)
    return ablation


@pytest.fixture
def cell(ablation: Ablation) -> Cell:
    """Its first run."""
    return ablation.cells(Path("a"))[0]


@contextlib.contextmanager
def died(run: Path) -> Iterator[None]:
    """The lease of a run as another machine leaves it that died: nobody renews it."""
    lease = lease_of(run)
    file = Path(lease.lock_file)
    with lease:
        left = file.read_text()
    file.write_text(re.sub("(?m)^host=.*$", "host=elsewhere", left))
    yield
    assert not file.exists()


def test_a_run_is_one_process_s_at_a_time(cell: Cell) -> None:
    with lease_of(cell.run):
        assert not is_free(lease_of(cell.run))
        assert work(cell.run.parent, cell.run.name) == TAKEN
        assert not cell.run.exists()
    assert work(cell.run.parent, cell.run.name) == 0
    assert cell.results() is not None


def test_a_killed_process_gives_its_run_back_at_once(cell: Cell) -> None:
    """On the same machine, which knows that the process is gone."""
    held = f"from reason.ablation.lease import *; lease = lease_of(Path({str(cell.run)!r})); lease.acquire()"
    command = [sys.executable, "-c", f"{held}; print('held', flush=True); input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        assert not is_free(lease_of(cell.run))
        process.kill()
        process.wait()
        assert is_free(lease_of(cell.run))


def test_a_machine_that_died_gives_its_run_back(cell: Cell, plan: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its runs are left to it until nobody has renewed the lease for long; runs that are free go first."""
    monkeypatch.setattr("reason.ablation.lease.LEASE", 3.0)
    begun: list[str] = []

    class Noted(Within):
        def __init__(self, command: list[str], **_: object):
            begun.append(command[-1])
            super().__init__(command)

    monkeypatch.setattr("reason.ablation.queue.subprocess.Popen", Noted)
    said = io.StringIO()
    with died(cell.run), contextlib.redirect_stdout(said):
        assert main(["ablate", *plan]) == 0
    assert begun == ["01-seed0", "00-seed0"]
    assert "other processes work on the 1 runs that are left; waiting for them" in said.getvalue()


def test_a_process_that_lost_its_lease_ends(cell: Cell) -> None:
    """Saving nothing: the run may be another machine's by now."""
    code = (
        "import reason.ablation.lease as l, time; from pathlib import Path; l.LEASE = 0.3\n"
        f"lease = l.lease_of(Path({str(cell.run)!r})); lease.acquire(); Path(lease.lock_file).unlink()\n"
        "time.sleep(600)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == TAKEN
    assert "00-seed0.lease is lost (marker-missing): another process may work there" in ended.stderr


def test_a_run_that_another_began_first_is_looked_at_again(
    ablation: Ablation, cell: Cell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look and the process's own claim another machine may be faster."""
    first = [True]

    class Late(Within):
        def __init__(self, command: list[str], **_: object):
            with lease_of(cell.run) if first.pop() else contextlib.nullcontext():
                super().__init__(command)
            first.append(False)

    monkeypatch.setattr("reason.ablation.queue.subprocess.Popen", Late)
    queue = Queue(ablation, [cell], 1, float("inf"), "none")
    with StopRequest() as stop:
        assert list(queue.run(stop)) == [cell]
    assert not queue.failed
    assert cell.results() is not None


def test_the_folder_is_checked_by_one_process_at_a_time(cell: Cell, capsys: pytest.CaptureFixture[str]) -> None:
    folder, joined = cell.run.parent, threading.Event()

    def join() -> None:
        with alone(folder):
            joined.set()

    second = threading.Thread(target=join)
    with alone(folder):
        second.start()
        while "another reason ablate reads or writes a; waiting" not in capsys.readouterr().out:
            second.join(0.1)
            assert second.is_alive()
        assert not joined.is_set()
    second.join()
    assert joined.is_set()


def test_another_plan_is_refused_in_a_folder_at_work(plan: list[str], cell: Cell) -> None:
    with lease_of(cell.run):
        refusal(["ablate", *plan, "optimizer.lr=1e-3"], "holds another ablation: shared is")
    assert os.listdir("a") == ["ablation.json"]


def test_the_example_for_rented_machines_types_an_ablation() -> None:
    task = yaml.safe_load((Path(__file__).parents[2] / "examples/skypilot.yaml").read_text())
    (words,) = re.findall(r"\$REASON ablate (.*)", task["run"])
    found = asked(words.split(), False)
    refuse_alike(found)
    assert len(found.cells(Path("a"))) == 6
    assert task["num_nodes"] > 1


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("unshare") is None or os.geteuid() != 0, reason="namespaces stand for machines")
def test_two_machines_share_the_runs_and_one_dies(plan: list[str], here: Path) -> None:
    """Each has a host name and process numbers of its own; the table is that of one machine, to the digit."""
    plan = ["ablate", *plan[:-2], "seeds=2", "training.steps=400", "training.checkpoint_every=20"]
    plan.remove("training.steps=2")
    plan.remove("seeds=1")
    command = [sys.executable, "-m", "reason", *plan]

    def machine(name: str) -> subprocess.Popen[str]:
        words = ["unshare", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc"]
        words += ["sh", "-c", f'hostname {name}; "$@"', "sh"]
        return subprocess.Popen([*words, *command, "--out", "a"], stdout=subprocess.PIPE, text=True)

    with machine("one") as one, machine("two") as two:
        try:
            while len(list(Path("a").glob("*-seed*/metrics.jsonl"))) < 2:
                assert one.poll() is None
                time.sleep(0.1)
            leases = [file.read_text() for file in sorted(Path("a").glob(".*-seed*.lease"))]
            assert sorted(re.findall("host=([a-z]*)", "".join(leases))) == ["one", "two"]
            one.kill()  # and with it every process in its namespace
            said = two.communicate()[0]
            assert two.returncode == 0
        finally:
            two.kill()
    assert "4 of 4 runs" in said
    assert "other processes work on the 1 runs that are left; waiting for them" in said
    subprocess.run([*command, "--out", "b"], check=True, capture_output=True)
    assert Path("a/summary/summary.json").read_text() == Path("b/summary/summary.json").read_text()
