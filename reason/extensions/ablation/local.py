"""Executes an ablation's runs on this machine, each in a separate process, several at a time.

The worker's standard input is a pipe that only this process keeps open. If this process is killed, the pipe closes
and the workers end, so that the same command can continue.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from datasets_gen.progress import Progress
from reason.extensions.ablation.variants import Ablation, Cell
from reason.plugins import IMPORTED
from reason.report.section import headline
from reason.training.interrupt import StopRequest


def work_through(ablation: Ablation, cells: Sequence[Cell], jobs: int, until: float, stop: StopRequest) -> list[Cell]:
    """Train and evaluate the unfinished runs, `jobs` at a time; returns those that failed.

    until: the time (monotonic seconds) at which all save and stop, as on a signal.
    """
    left, failed = [cell for cell in cells if cell.missing(ablation)], list[Cell]()
    at_work: list[tuple[Cell, subprocess.Popen[bytes]]] = []
    lifeline, held = os.pipe()
    with Progress(total=len(cells), initial=len(cells) - len(left), unit="run", desc="ablation") as bar:
        try:
            while (left or at_work) and time.monotonic() < until and stop.name is None:
                while left and len(at_work) < jobs:
                    cell = left.pop(0)
                    at_work.append((cell, _begin(cell, jobs, lifeline)))
                    bar.say(f"{cell.run.name}  {cell.variant}  begins, log {cell.log}")
                for cell, process in [pair for pair in at_work if pair[1].poll() is not None]:
                    at_work.remove((cell, process))
                    bar.update()
                    if cell.missing(ablation):
                        failed.append(cell)
                        outcome = f"failed: {why_ended(process.returncode, cell.log)}; log {cell.log}"
                    else:
                        outcome = headline(cell.results() or {}).partition(" (")[0]
                    ended = len(cells) - len(left) - len(at_work)
                    bar.say(f"{cell.run.name}  {cell.variant}  {outcome}; {ended} of {len(cells)} runs")
                time.sleep(0.1)
        finally:
            for _, process in at_work:
                process.send_signal(signal.SIGTERM if os.name == "nt" else signal.SIGINT)
            for _, process in at_work:
                process.wait()
            os.close(lifeline)
            os.close(held)
    return failed


def _begin(cell: Cell, jobs: int, stdin: int) -> subprocess.Popen[bytes]:
    """Start a process in a separate session, which Ctrl-C does not reach, with its share of the cores."""
    imports = [f"--import={file}" for file in IMPORTED]
    threads = {} if jobs == 1 else {"OMP_NUM_THREADS": str(max(1, torch.get_num_threads() // jobs))}
    command = [sys.executable, "-m", "reason.extensions.ablation.command", *imports]
    with cell.log.open("ab") as log:
        return subprocess.Popen(
            [*command, str(cell.run.parent), cell.run.name],
            stdin=stdin, stdout=log, stderr=log, start_new_session=True, env=os.environ | threads,
        )  # fmt: skip


def end_with_parent() -> None:
    """Make this worker end when the command that started it has ended."""
    while os.read(0, 1):
        pass
    os._exit(1)


def why_ended(status: int, log: Path) -> str:
    """Return the signal that killed a process; if it failed by itself, the last error in its log."""
    if status < 0:
        return f"killed by signal {-status}{', perhaps out of memory' if status == -9 else ''}"
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    errors = [line.partition("error: ")[2] for line in lines if line.startswith(("error: ", "srun: error: "))]
    return errors[-1] if errors else "no message"
