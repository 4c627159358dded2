"""Executes an ablation's runs as an array of SLURM jobs, one for each run, submitted and requeued by submitit."""

from __future__ import annotations

import contextlib
import io
import json
import math
import shutil
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from reason.errors import ConfigError
from reason.extensions.ablation.variants import Cell, cell_of
from reason.files import published, read_json
from reason.plugins import IMPORTED, import_file

try:
    import submitit
except ImportError:
    submitit = None  # type: ignore[assignment]

FOLDER = "slurm"  # in the ablation's folder: files of submitit and the jobs' logs
JOBS = "jobs.json"  # in it: the run of each submitted job, by the job's number
WARNED = 90  # seconds before its time limit at which a job gets the signal to save; SLURM may send it a minute earlier
SHORTEST = 5  # shortest time limit of a job, in minutes
REQUEUES = 1000  # maximum, after the time limit
# srun does not inherit sbatch's --cpus-per-task, and torch starts as many threads as the machine has cores.
SETUP = [
    "export SRUN_CPUS_PER_TASK=${SLURM_CPUS_PER_TASK:-1}",
    "export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$SRUN_CPUS_PER_TASK}",
]


class Job:
    """The work of a job: a run, until it is finished or a signal stops it. submitit stores this object in a file."""

    def __init__(self, work: Callable[[Path, str], int], run: Path):
        """Store `work`(folder, name), which begins or continues a run and returns the exit status."""
        self.work, self.run, self.imports = work, run.absolute(), list(IMPORTED)

    def __call__(self) -> None:
        """Execute the run; if a signal stops it, raise so that the job is requeued."""
        for file in self.imports:
            import_file(file)
        if status := self.work(self.run.parent, self.run.name):
            raise SystemExit(status)
        ablation, cell = cell_of(self.run.parent, self.run.name)
        if cell.missing(ablation):
            environment = submitit.JobEnvironment()
            if environment.cluster == "slurm" and not queued().get(environment.job_id, "").startswith("RUNNING"):
                raise SystemExit("stopped by a signal, and saved")
            print("stopped by a signal, and saved: the job is requeued", flush=True)
            signal.raise_signal(signal.Signals[f"SIG{submitit.JobEnvironment.USR_SIG}"])  # submitit's handler does it

    def checkpoint(self) -> submitit.helpers.DelayedSubmission:
        """Return the same call for the requeued job, since the run's folder has the state."""
        return submitit.helpers.DelayedSubmission(self)


def executor(folder: Path, minutes: float, at_once: int, options: Sequence[str]) -> submitit.Executor:
    """Submit jobs with a limit of minutes, `at_once` at a time; `options` are sbatch's: "partition=gpu"."""
    if submitit is None:
        raise ConfigError("--on slurm needs submitit: pip install submitit, or 'recursive-reasoners[slurm]'")
    if shutil.which("sbatch") is None:
        raise ConfigError("--on slurm: this machine has no sbatch; use one that submits to SLURM")
    if not SHORTEST <= minutes < math.inf:
        raise ConfigError(
            f"--on slurm --max-minutes {minutes:g}: type the time of each job, {SHORTEST} minutes or more; a run that "
            "needs longer is saved and requeued"
        )
    typed = (option.partition("=") for option in options)
    executor = submitit.SlurmExecutor(folder / FOLDER, max_num_timeout=REQUEUES)
    executor.update_parameters(
        job_name=f"reason-{folder.absolute().name}",
        time=math.ceil(minutes),
        signal_delay_s=WARNED,
        array_parallelism=at_once,
        stderr_to_stdout=True,
        setup=SETUP,
        additional_parameters={"requeue": True, **{key: value if equals else True for key, equals, value in typed}},
    )
    return executor


def submit(through: submitit.Executor, folder: Path, cells: Sequence[Cell], work: Callable[[Path, str], int]) -> None:
    """Submit a job for every cell, in one array."""
    try:
        with contextlib.redirect_stderr(io.StringIO()), through.batch():  # submitit also prints sbatch's output
            jobs = [through.submit(Job(work, cell.run)) for cell in cells]
    except submitit.core.utils.FailedJobError as error:
        reason = str(error).strip().rpartition("\n")[2].removeprefix("sbatch: error: ")
        raise ConfigError(f"--on slurm: sbatch refuses the jobs ({reason}); see --sbatch and --max-minutes") from None
    known = submitted(folder) | {job.job_id: cell.run.name for job, cell in zip(jobs, cells, strict=True)}
    with published(folder / FOLDER / JOBS, replace=True) as part:
        part.write_text(json.dumps(known, indent=2) + "\n", encoding="utf-8")


def submitted(folder: Path) -> dict[str, str]:
    """Return the name of the run of every job that was submitted, the newest job last."""
    file = folder / FOLDER / JOBS
    return dict(read_json(file)) if file.exists() else {}


def log_of(folder: Path, job: str) -> Path:
    """Return the file with the output of a job."""
    return folder / FOLDER / f"{job}_0_log.out"


def queued() -> dict[str, str]:
    """Return the state of each of the user's jobs that SLURM has not ended: "RUNNING", "PENDING (Resources)"."""
    command = ["squeue", "--me", "--array", "--noheader", "--format=%i|%T|%r"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ConfigError(f"squeue fails: {done.stderr.strip()}; try later")
    rows = [line.strip().split("|") for line in done.stdout.splitlines()]
    return {job: state if why == "None" else f"{state} ({why})" for job, state, why in rows}
