"""Work on several processes whose results come in order, so that their number changes nothing."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any, TypeVar

from datasets_gen.interrupts import held_back
from datasets_gen.layout import DatasetError

Task = TypeVar("Task")
Result = TypeVar("Result")

ALONE_SECONDS = 3.0  # shorter work ends before other processes would have started


def processors() -> int:
    """Processors that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def ordered_map(
    function: Callable[[Task], Result], tasks: Iterable[Task], processes: int | None = None
) -> Iterator[Result]:
    """function(task) for every task, in order; tasks may be endless: close the iterator when done.

    Starts alone and asks other processes to help once `ALONE_SECONDS` have passed. `processes` defaults to
    the processors at hand.
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
    workers = _Workers()
    pool = ProcessPoolExecutor(processes, mp_context=workers, initializer=_begin_worker)
    pending: deque[Future[Result]] = deque()
    try:
        for task in tasks:
            with held_back():
                pending.append(pool.submit(function, task))
            if len(pending) > 2 * processes:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    except BrokenProcessPool:
        raise DatasetError("a worker process was killed, for memory perhaps; type fewer --processes") from None
    except BaseException:  # closed or interrupted: compiled code in a worker holds the GIL, so only a signal ends it
        for worker in workers.started:
            worker.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


class _Workers(SpawnContext):
    """Starts processes and remembers them, so that they can be ended."""

    def __init__(self) -> None:
        super().__init__()
        self.started: list[SpawnProcess] = []

    def Process(self, *arguments: Any, **options: Any) -> SpawnProcess:  # type: ignore[override]
        self.started.append(SpawnProcess(*arguments, **options))
        return self.started[-1]


def _begin_worker() -> None:
    """Leave Ctrl-C to the parent, and end when it is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
