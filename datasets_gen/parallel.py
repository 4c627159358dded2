"""Work on several processes whose results come in order, so that their number changes nothing."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from types import ModuleType
from typing import Any, TypeVar

from datasets_gen.interrupts import held_back
from datasets_gen.layout import DatasetError

Task = TypeVar("Task")
Result = TypeVar("Result")

ALONE_SECONDS = 3.0  # shorter work ends before other processes would have started
SPAWN = multiprocessing.get_context("spawn")


def processors() -> int:
    """Processors that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def ordered_map(
    function: Callable[[Task], Result], tasks: Iterable[Task], processes: int | None = None
) -> Iterator[Result]:
    """function(task) for every task, in order; tasks may be endless: close the iterator when done.

    Starts alone and asks other processes to help once `ALONE_SECONDS` have passed. `processes` defaults to
    the processors at hand. Only where function or tasks are of the script that runs need it guard its commands by
    `if __name__ == "__main__":`.

    Raises:
        DatasetError: a process was killed; what `function` raises comes as it is, with the traceback there as a note.
    """
    processes = processes or processors()
    tasks = iter(tasks)
    started = time.monotonic()
    for task in tasks:
        yield function(task)
        if processes > 1 and time.monotonic() - started > ALONE_SECONDS:
            break
    else:
        return
    workers: list[_Worker] = []
    try:
        with held_back(), _script_left_out(function, task):
            for _ in range(processes):
                workers.append(_Worker(function))
        yield from _shared_out(workers, tasks)
    finally:
        for worker in workers:
            worker.end()


def _shared_out(workers: list[_Worker], tasks: Iterator[Any]) -> Iterator[Any]:
    """Results in the order of the tasks, of which three a worker at most are in hand or wait for earlier ones.

    Each worker answers on a pipe of its own, which nobody else reads or writes: where one is killed in the midst of an
    answer, as when the iterator is closed, nothing waits for the rest of it.
    """
    order: deque[int] = deque()  # numbers of tasks given out whose results were not yielded
    found: dict[int, tuple[Any, Exception | None]] = {}
    busy: dict[Connection, tuple[int, _Worker]] = {}
    numbered = enumerate(tasks)

    def give(worker: _Worker) -> None:
        if (following := next(numbered, None)) is not None:
            number, task = following
            worker.ask(task)
            order.append(number)
            busy[worker.connection] = number, worker

    for worker in workers:
        give(worker)
    while order:
        while order and order[0] in found:
            result, error = found.pop(order.popleft())
            if error is not None:
                raise error
            yield result
        idle = [worker for worker in workers if worker.connection not in busy]
        for worker in idle[: max(0, 3 * len(workers) - len(order))]:
            give(worker)
        for connection in wait(list(busy)) if order and order[0] not in found else ():
            number, worker = busy.pop(connection)  # type: ignore[call-overload]
            found[number] = worker.answer()


@contextlib.contextmanager
def _script_left_out(*needed: object) -> Iterator[None]:
    """Processes that start within do not run the script that runs here, unless something `needed` is defined in it."""
    main = sys.modules["__main__"]
    if b"__main__" not in pickle.dumps(needed):
        sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


class _Worker:
    """A process that applies a function to one task after another."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.connection, theirs = SPAWN.Pipe()
        self.process = SPAWN.Process(target=_serve, args=(function, theirs), daemon=True)
        self.process.start()
        theirs.close()

    def ask(self, task: Any) -> None:
        """Give it a task."""
        try:
            self.connection.send(task)
        except OSError:
            raise _killed() from None

    def answer(self) -> tuple[Any, Exception | None]:
        """The result of its task, which has arrived, or what the task raised.

        Raises:
            DatasetError: the process is no more.
        """
        try:
            answer: tuple[Any, Exception | None] = self.connection.recv()
            return answer
        except (EOFError, OSError):
            raise _killed() from None

    def end(self) -> None:
        """At once: compiled code in a worker holds the GIL, so only a signal ends it."""
        self.process.terminate()
        self.process.join()
        self.connection.close()


def _killed() -> DatasetError:
    return DatasetError(
        "a worker process was killed, for memory perhaps: type fewer --processes; in a script of your own, put what "
        'starts the work below `if __name__ == "__main__":`'
    )


def _serve(function: Callable[[Any], Any], connection: Connection) -> None:
    """Answer until the parent is gone; Ctrl-C is the parent's."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while True:
        try:
            task = connection.recv()
        except (EOFError, OSError):
            return
        answer: tuple[Any, Exception | None]
        try:
            answer = function(task), None
        except Exception as error:
            error.add_note(traceback.format_exc())
            answer = None, error
        connection.send(answer)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
