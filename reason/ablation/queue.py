"""Runs in processes of their own, several at a time; runs that other machines work on are left to them."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from pathlib import Path

from reason.ablation import Ablation, Cell
from reason.ablation.lease import TAKEN, is_free, lease_of
from reason.plugins import IMPORTED
from reason.training.interrupt import StopRequest

LOOK = 2.0  # seconds between two looks at runs that others work on
PROGRESS = r"\b\d+%(\||.*\[\d+:)|\b\d+\w* \[\d+:\d+,"  # a bar or a line, with and without a total
NO_REASON = re.compile(rf"{PROGRESS}|^submitit (INFO|WARNING)|^srun: .*(exit code|SIGCONT|Waiting|forcing)|^\s*$")


class Queue:
    """Trains and evaluates cells in processes of their own, `jobs` at a time; what was stopped goes on where it was."""

    def __init__(self, ablation: Ablation, cells: list[Cell], jobs: int, until: float, worker: str):
        """until: the time (monotonic seconds) at which everything is saved and stopped. worker: the module of a run."""
        self.ablation, self.left, self.jobs, self.until, self.worker = ablation, list(cells), jobs, until, worker
        self.at_work: list[tuple[Cell, subprocess.Popen[bytes]]] = []
        self.failed: dict[str, str] = {}  # by run: why it ended
        self.leases = {
            cell.run: lease_of(cell.run) for cell in cells
        }  # kept: each measures for how long nobody renews it
        self.next_look = 0.0  # monotonic seconds
        self.waits = False  # is there nothing to do but what others work on?
        cores = os.environ.get("OMP_NUM_THREADS", "")
        self.threads = str(max(1, (int(cores) if cores.isdecimal() else os.cpu_count() or 1) // jobs))

    def run(self, stop: StopRequest) -> Generator[Cell, None, None]:
        """Every cell as it is done with; ends early, all saved, when the time is over or a signal asks for it."""
        try:
            while (self.left or self.at_work) and time.monotonic() < self.until and stop.name is None:
                if len(self.at_work) < self.jobs and time.monotonic() >= self.next_look:
                    yield from self._fill()
                yield from self._done()
                time.sleep(0.1)
        finally:
            self._stop()

    def _fill(self) -> Iterator[Cell]:
        """Begin runs that nobody works on; the cells that are finished, by whomever."""
        for cell in list(self.left):
            if len(self.at_work) == self.jobs:
                return
            if not cell.missing(self.ablation):
                self.left.remove(cell)
                yield cell
            elif is_free(self.leases[cell.run]):
                self.left.remove(cell)
                self._begin(cell)
        self.next_look = time.monotonic() + LOOK
        if self.left and not self.at_work and not self.waits:
            print(f"other processes work on the {len(self.left)} runs that are left; waiting for them", flush=True)
            self.waits = True

    def _begin(self, cell: Cell) -> None:
        """Training, or evaluation of a run that is trained, in a process of its own session."""
        imports = [f"--import={file}" for file in IMPORTED]
        log = cell.run.with_name(f"{cell.run.name}.log").open("ab")
        with log:
            process = subprocess.Popen(
                [sys.executable, "-m", self.worker, *imports, str(cell.run.parent), cell.run.name],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=os.environ | {"OMP_NUM_THREADS": self.threads},
            )
        self.at_work.append((cell, process))

    def _done(self) -> Iterator[Cell]:
        for cell, process in list(self.at_work):
            if process.poll() is None:
                continue
            self.at_work.remove((cell, process))
            if process.returncode == TAKEN:
                self.left.append(cell)
                continue
            if cell.missing(self.ablation):
                self.failed[str(cell.run)] = why_ended(process.returncode, cell.run.with_name(f"{cell.run.name}.log"))
            yield cell

    def _stop(self) -> None:
        for _, process in self.at_work:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM if os.name == "nt" else signal.SIGINT)
        for _, process in self.at_work:
            process.wait()


def why_ended(status: int, log: Path) -> str:
    """The signal that killed a process; of one that failed by itself the last line of its log that is a reason."""
    if status < 0:
        name = signal.Signals(-status).name if -status in set(signal.Signals) else "unknown"
        memory = ", perhaps out of memory" if name == "SIGKILL" else ""
        return f"killed by signal {-status} ({name}){memory}"
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    said = next((line for line in reversed(lines) if not NO_REASON.search(line)), "no word")
    return said.removeprefix("error: ")
