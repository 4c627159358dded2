"""reason ablate --on slurm: what is submitted when, requeued and refused, with a queue in SLURM's place."""

import contextlib
import os
import shutil
import signal
from pathlib import Path
from unittest.mock import Mock

import pytest
from conftest import output, refusal
from test_ablate import SHORT, Within, summary_of

submitit = pytest.importorskip("submitit")

from reason.extensions.ablation import slurm  # noqa: E402
from reason.extensions.ablation.command import asked  # noqa: E402
from reason.extensions.ablation.variants import open_folder  # noqa: E402

PLAN = ["ablate", "sudoku-4x4", "ema.decay=0.99,0.5", *SHORT]


class Jobs:
    """Stands for SLURM and submitit's executor: numbers jobs, and is told which of them it still has."""

    def __init__(self, monkeypatch):
        self.jobs, self.states = {}, {}
        monkeypatch.setattr(slurm, "executor", lambda *_: self)
        monkeypatch.setattr(slurm, "queued", lambda: self.states)

    def batch(self):
        (Path("a") / slurm.FOLDER).mkdir(exist_ok=True)  # as submitit does
        return contextlib.nullcontext()

    def submit(self, job):
        number = str(len(self.jobs) + 1)
        self.jobs[number], self.states[number] = job, "PENDING (Resources)"
        return Mock(job_id=number)


def test_runs_are_submitted_until_they_are_finished(sudoku_4x4, here, monkeypatch):
    slurm_of, plan = Jobs(monkeypatch), [*PLAN, f"data={sudoku_4x4}", "seeds=1"]
    on_slurm = [*plan, "--out", "a", "--on", "slurm", "--max-minutes", "5"]
    output(on_slurm, "00-seed0  job 1  PENDING (Resources)  decay=0.99", "2 runs are unfinished, 2 submitted now")
    slurm_of.jobs["1"]()
    slurm_of.states = {"2": "RUNNING"}
    output(on_slurm, "01-seed0  job 2  RUNNING", "1 runs are unfinished, 0 submitted now")
    slurm_of.states = {}
    output(on_slurm, "1 runs are unfinished, 1 submitted now")
    slurm_of.jobs["3"]()
    assert "left" not in output(on_slurm, "2 of 2 runs")
    monkeypatch.setattr("reason.extensions.ablation.local.subprocess.Popen", Within)
    output([*plan, "--out", "b"])
    assert summary_of(Path("a")) == summary_of(Path("b"))


def test_a_job_that_a_signal_stopped_is_requeued(here, monkeypatch):
    monkeypatch.setenv("_TEST_CLUSTER_", "local")  # the environment that submitit believes in
    (here / "a").mkdir()
    open_folder(here / "a", asked(PLAN[1:4], False))
    told = []
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
    "no slurm": (["--on", "slurm", "--max-minutes", "9"], "this machine has no sbatch; use one that submits"),
    "another engine's": (["--sbatch", "partition=gpu"], "--sbatch partition=gpu: an option of SLURM's jobs; type --on"),
}


@pytest.mark.parametrize(("words", "said"), REFUSED.values(), ids=REFUSED)
def test_what_slurm_cannot_do_is_refused(words, said, here, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda _: None if "no sbatch" in said else "/")
    refusal([*PLAN, *words], said)
    assert not list(here.iterdir())


def test_jobs_that_sbatch_refuses_are_none(here, sudoku_4x4, monkeypatch):
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
