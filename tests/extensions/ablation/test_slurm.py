"""reason ablate --on slurm: what is submitted when, and (slow) on a real SLURM whose daemons are started here."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest
from conftest import output, refusal
from test_ablate import Within

submitit = pytest.importorskip("submitit")

from reason.extensions.ablation import slurm  # noqa: E402
from reason.extensions.ablation.command import asked  # noqa: E402
from reason.extensions.ablation.variants import open_folder  # noqa: E402

PLAN = ["ablate", "sudoku-4x4", "ema.decay=0.99,0.5", "model.hidden_size=16", "model.num_heads=2",
        "training.batch_size=8", "evaluation.steps=2", "evaluation.boards=0", "training.monitor.puzzles=0"]  # fmt: skip


def until(met: Callable[[], object], what: str, seconds: float = 300) -> None:
    """Wait for something that other processes do."""
    end = time.monotonic() + seconds
    while not met():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.2)


def table(folder: Path) -> str:
    return (folder / "summary/summary.json").read_text()


def lines(run: Path) -> list[dict[str, float]]:
    """What a run has logged, without what a clock says."""
    logged = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    clocked = ("seconds", "puzzle_steps_per_second", "memory_peak")
    return [{key: value for key, value in line.items() if key not in clocked} for line in logged]


class Jobs:
    """Stands for SLURM and submitit's executor: numbers jobs, and is told which of them it still has."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.jobs, self.states = dict[str, slurm.Job](), dict[str, str]()
        monkeypatch.setattr(slurm, "executor", lambda *_: self)
        monkeypatch.setattr(slurm, "queued", lambda: self.states)

    def batch(self) -> contextlib.AbstractContextManager[None]:
        (Path("a") / slurm.FOLDER).mkdir(exist_ok=True)  # as submitit does
        return contextlib.nullcontext()

    def submit(self, job: slurm.Job) -> Mock:
        number = str(len(self.jobs) + 1)
        self.jobs[number], self.states[number] = job, "PENDING (Resources)"
        return Mock(job_id=number)


def test_runs_are_submitted_until_they_are_finished(
    sudoku_4x4: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of two jobs ends with its run, the other is killed and submitted again: the table of one machine."""
    slurm_of, plan = Jobs(monkeypatch), [*PLAN, f"data={sudoku_4x4}", "seeds=1", "training.steps=3"]
    on_slurm = [*plan, "--out", "a", "--on", "slurm", "--max-minutes", "5"]
    output(on_slurm, "00-seed0  job 1  PENDING (Resources)  decay=0.99", "2 runs are left, 2 submitted now")
    slurm_of.jobs["1"]()
    slurm_of.states = {"2": "RUNNING"}
    output(on_slurm, "01-seed0  job 2  RUNNING", "1 runs are left, 0 submitted now")
    slurm_of.states = {}
    output(on_slurm, "1 runs are left, 1 submitted now")
    slurm_of.jobs["3"]()
    assert "left" not in output(on_slurm, "2 of 2 runs")
    monkeypatch.setattr("reason.extensions.ablation.local.subprocess.Popen", Within)
    output([*plan, "--out", "b"])
    assert table(Path("a")) == table(Path("b"))


def test_a_job_that_a_signal_stopped_is_requeued(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_TEST_CLUSTER_", "local")  # the environment that submitit believes in
    (here / "a").mkdir()
    open_folder(here / "a", asked(PLAN[1:4], False))
    told: list[int] = []
    before = signal.signal(signal.SIGUSR2, lambda number, _: told.append(number))  # as submitit's handler
    try:
        slurm.Job(lambda folder, name: 0, here / "a/00-seed0")()
        with pytest.raises(SystemExit, match="3"):
            slurm.Job(lambda folder, name: 3, here / "a/00-seed0")()
    finally:
        signal.signal(signal.SIGUSR2, before)
    assert told == [signal.SIGUSR2]


REFUSED = {
    "no time": (["--on", "slurm"], "--on slurm --max-minutes inf: type the time of each job, 5 minutes or more"),
    "too short": (["--on", "slurm", "--max-minutes", "2"], "--max-minutes 2: type the time of each job"),
    "no slurm": (["--on", "slurm", "--max-minutes", "9"], "there is no sbatch here; type it on a machine that submits"),
    "another engine's": (["--sbatch", "partition=gpu"], "--sbatch partition=gpu: an option of SLURM's jobs; type --on"),
}


@pytest.mark.parametrize(("words", "said"), REFUSED.values(), ids=REFUSED)
def test_what_slurm_cannot_do_is_refused(
    words: list[str], said: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None if "sbatch here" in said else "/")
    refusal([*PLAN, *words], said)
    assert not list(here.iterdir())


def test_jobs_that_sbatch_refuses_are_none(here: Path, sudoku_4x4: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A script in sbatch's place says what the real one says."""
    for name in ("sbatch", "squeue", "srun"):
        fails = "echo sbatch: error: invalid partition: nowhere >&2; exit 1" if name == "sbatch" else "exit 0"
        (here / name).write_text(f"#!/bin/sh\n{fails}\n")
        (here / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{here}:{os.environ['PATH']}")
    words = [*PLAN, f"data={sudoku_4x4}", "--on", "slurm", "--max-minutes", "5", "--sbatch", "partition=nowhere"]
    said = refusal(words, "--on slurm: sbatch refuses the jobs (invalid partition: nowhere); see --sbatch")
    assert said.count("nowhere") == 1
    assert not slurm.submitted(Path("runs/ablation-sudoku-4x4"))


def test_a_missing_submitit_is_named(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm, "submitit", None)
    refusal([*PLAN, "--on", "slurm", "--max-minutes", "9"], "pip install submitit, or 'recursive-reasoners[slurm]'")


CONFIG = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
SlurmdUser=root
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=1,sched_interval=3,bf_interval=3
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=2
PartitionName=main Nodes=n1 Default=YES MaxTime=60 PriorityTier=1 GraceTime=60
PartitionName=urgent Nodes=n1 MaxTime=60 PriorityTier=2
"""


class Cluster:
    """A SLURM of one node on this machine."""

    def __init__(self, folder: Path):
        self.folder, self.daemons = folder, list[subprocess.Popen[bytes]]()
        with contextlib.ExitStack() as held:
            sockets = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2)]
            ports = [each.getsockname()[1] for each in sockets]
        (folder / "state").mkdir()
        (folder / "munge.key").write_bytes(os.urandom(128))
        (folder / "munge.key").chmod(0o400)
        self.config = folder / "slurm.conf"
        self.config.write_text(CONFIG.format(folder=folder, host=socket.gethostname(), ports=ports))

    def begin(self, *command: str) -> None:
        with (self.folder / f"{command[0]}.log").open("ab") as log:
            self.daemons.append(subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL))

    def begin_all(self) -> None:
        parts = {"key-file": "key", "socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
        own = [f"--{option}={self.folder}/munge.{end}" for option, end in parts.items()]
        self.begin("munged", "--foreground", "--force", *own)
        until((self.folder / "munge.socket").exists, "munged answers")
        self.begin("slurmctld", "-D")
        self.begin("slurmd", "-D", "-N", "n1")
        until(lambda: self.told("sinfo", "-h", "-p", "main", "-o", "%T") == ["idle"], "an idle node")

    def told(self, *command: str) -> list[str]:
        """The lines that a command of SLURM prints."""
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.split("\n")[:-1]

    def end(self) -> None:
        self.told("scancel", "--me", "--signal=KILL", "--full")
        for daemon in reversed(self.daemons):
            daemon.terminate()
            daemon.wait()


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A running SLURM; skips where it is not installed."""
    if os.name == "nt" or os.geteuid() != 0:
        pytest.skip("slurmd starts jobs as root")
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:/usr/sbin")
    for command in ("munged", "slurmctld", "slurmd", "sbatch"):
        if shutil.which(command) is None:
            pytest.skip(f"no {command}: apt install slurm-wlm")
    (tmp_path / "slurm").mkdir()
    found = Cluster(tmp_path / "slurm")
    monkeypatch.setenv("SLURM_CONF", str(found.config))
    try:
        found.begin_all()
        yield found
    finally:
        found.end()


@pytest.mark.slow
def test_on_a_real_slurm_nothing_is_lost(sudoku_4x4: Path, here: Path, cluster: Cluster) -> None:
    """Of two jobs one is killed and one preempted: the table of one machine, to the digit."""
    plan = [*PLAN, f"data={sudoku_4x4}", "seeds=1", "training.steps=600", "training.checkpoint_every=50",
            "training.log_every=100"]  # fmt: skip
    on_slurm = [*plan, "--out", "a", "--on", "slurm", "--max-minutes", "5"]
    output(on_slurm, "2 runs are left, 2 submitted now")
    killed, preempted = slurm.submitted(Path("a"))
    until(lambda: len(list(Path("a").glob("*/checkpoints/step-*[1-9]*"))) >= 2, "both runs train")
    cluster.told("scancel", "--signal=KILL", "--full", killed)
    until(lambda: killed not in slurm.queued(), "the killed job ends")
    urgent = cluster.told("sbatch", "--parsable", "-p", "urgent", "-n", "2", "--wrap", "sleep 5")[0]
    until(lambda: slurm.queued().get(preempted, "").startswith("PENDING"), "the preempted job is pending")
    assert "stopped by a signal, and saved: the job is requeued" in slurm.log_of(Path("a"), preempted).read_text()
    until(lambda: urgent not in slurm.queued(), "the urgent job ends")
    output(on_slurm, "1 submitted now")  # the killed one; SLURM itself has requeued the other
    until(lambda: "left" not in output(on_slurm), "all runs are finished", 1200)
    subprocess.run([sys.executable, "-m", "reason", *plan, "--out", "b"], check=True, capture_output=True)
    assert table(Path("a")) == table(Path("b"))
    for run in sorted(Path("b").glob("*-seed*/")):
        assert lines(Path("a") / run.name) == lines(run)
