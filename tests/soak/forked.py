"""Commands in forked processes that are sent a signal at some moment: one import of torch serves them all."""

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

HANG = 300.0  # seconds after which a command hangs: five are long, but an unsigned lease is waited for two minutes
PRELOADED = [
    "torch._dynamo",
    "reason.cli.ablate",
    "reason.cli.evaluate",
    "reason.cli.share",
    "reason.cli.train",
    "warmed",
]
os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)  # by which the fork server finds them
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(PRELOADED)


class Forked:
    """In place of `subprocess.Popen`: a run of an ablation in a fork of the queue's process."""

    def __init__(self, words: Sequence[str], stdout: Any, **_: object):
        self.returncode: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            os.setsid()
            os.dup2(stdout.fileno(), 1)
            os.dup2(stdout.fileno(), 2)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            from reason.cli.ablate import work

            os._exit(work(Path(words[-2]), words[-1]))

    def poll(self) -> int | None:
        return self.wait(os.WNOHANG)

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def wait(self, options: int = 0) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, options)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode


def _run(words: list[str], log: Path, begun: Connection) -> None:
    from reason.cli import main

    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(out, 1)
    os.dup2(out, 2)
    sys.stdout, sys.stderr = (os.fdopen(stream, "w", buffering=1) for stream in (1, 2))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    with (
        patch("reason.report.page.svg", lambda chart, name: "<svg></svg>"),  # charts take most of an evaluation
        patch("reason.evaluation.suite.save_png", lambda charts, path: path.write_bytes(b"\x89PNG")),
        patch("reason.report.ablation.save_png", lambda charts, path: path.write_bytes(b"\x89PNG")),
        patch("reason.ablation.queue.subprocess", SimpleNamespace(Popen=Forked, DEVNULL=subprocess.DEVNULL)),
    ):
        begun.send(None)
        os._exit(main(words))


def begin(words: list[str], log: Path) -> BaseProcess:
    """The process of `reason WORDS`, which has begun."""
    begun, told = FORKS.Pipe(duplex=False)
    process = FORKS.Process(target=_run, args=(words, log, told))
    process.start()
    told.close()
    begun.recv()
    return process


def strike(words: list[str], log: Path, number: int = 0, seconds: float = 0.0) -> tuple[int | None, float]:
    """The exit status of `reason WORDS`, negative where a signal ended it, and its seconds; None: it hangs.

    With a number, that signal is sent once the command has run for so many seconds.
    """
    process, start = begin(words, log), time.monotonic()
    if number:
        process.join(seconds)
        with contextlib.suppress(ProcessLookupError):  # it has just ended
            if process.exitcode is None:
                os.kill(process.pid or 0, number)
    process.join(HANG)
    taken, status = time.monotonic() - start, process.exitcode
    if status is None:
        process.kill()
        process.join()
    process.close()
    return status, taken
