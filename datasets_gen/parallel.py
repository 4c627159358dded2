"""Work that depends on its seed alone: numbered random generators, and results in order from several processes."""

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
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from functools import partial
from multiprocessing.connection import Connection, wait
from types import ModuleType
from typing import Any, Protocol, TypeVar

import numpy as np

from datasets_gen.layout import DatasetError
from datasets_gen.terminal import held_back

Task = TypeVar("Task")
Result = TypeVar("Result")

ORDER = ("train", "test", "validation")  # of generation: a validation split, asked for or not, changes no other
ALONE_SECONDS = 3.0  # shorter work ends before other processes would have started
AHEAD = 3  # tasks a worker, whose results may wait for an earlier one
SPAWN = multiprocessing.get_context("spawn")


class Part(Protocol):
    """A part of the work, as an extension shares it out."""

    @property
    def of(self) -> int:
        """The number of parts: this process looks for an `of`-th of the puzzles."""

    def results(
        self,
        compute: Callable[[Callable[[Task], Result], Iterable[Task]], Iterator[Result]],
        function: Callable[[Task], Result],
        tasks: Iterable[Task],
    ) -> Iterator[Result]:
        """function(task) for the tasks of this part, in order, by `compute` where they are not known yet."""


PART: ContextVar[Part | None] = ContextVar("PART", default=None)  # that this process makes; None: all of the set


def seeded(seed: int, *key: int) -> np.random.Generator:
    """The generator that (seed, key) names. Only its `random` is used, whose bits numpy promises to keep."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=key)))


def share(count: int) -> int:
    """How many of `count` puzzles this process looks for."""
    part = PART.get()
    return count if part is None else -(-count // part.of)


def distinct(
    chunks: Iterable[Iterable[tuple[Any, Result]]],
    count: int,
    seen: set[Any],
    bar: Any,
    hopeless: Callable[[int], str | None],
) -> list[Result]:
    """The first `count` of the (signature, item) in `chunks` whose signature was not seen; they are seen afterwards.

    A process that makes a part looks for its share of them. hopeless: why to give up after so many chunks in a row
    that brought nothing; None: go on.

    Raises:
        DatasetError: it is hopeless.
    """
    chosen: list[Result] = []
    bar.total = count = share(count)
    barren = 0
    for chunk in chunks:
        before = len(chosen)
        for signature, item in chunk:
            if signature not in seen and len(chosen) < count:
                seen.add(signature)
                chosen.append(item)
        bar.update(len(chosen) - before)
        if len(chosen) == count:
            break
        barren = 0 if len(chosen) > before else barren + 1
        if why := hopeless(barren):
            raise DatasetError(why)
    return chosen


def ordered_map(
    function: Callable[[Task], Result], tasks: Iterable[Task], processes: int | None = None
) -> Iterator[Result]:
    """function(task) for every task, in order; tasks may be endless: close the iterator when done.

    The work starts in this process and moves to `processes` others, by default as many as there are processors, after
    `ALONE_SECONDS`. A script needs `if __name__ == "__main__":` only where it defines the function or the tasks itself.
    A process that makes a part takes only the tasks of that part.

    Raises:
        DatasetError: a process was killed. What `function` raises is raised here, its traceback there as a note.
    """
    part = PART.get()
    compute = partial(_computed, processes=processes)
    return compute(function, tasks) if part is None else part.results(compute, function, tasks)


def _computed(
    function: Callable[[Task], Result], tasks: Iterable[Task], processes: int | None = None
) -> Iterator[Result]:
    affinity = getattr(os, "sched_getaffinity", None)
    processes = processes or (len(affinity(0)) if affinity else os.cpu_count() or 1)
    tasks = iter(tasks)
    started = time.monotonic()
    for task in tasks:
        yield function(task)
        if processes > 1 and time.monotonic() - started > ALONE_SECONDS:
            break
    else:
        return
    workers: dict[Connection, Any] = {}
    try:
        with held_back(), _script_left_out(function, task):
            for _ in range(processes):
                ours, theirs = SPAWN.Pipe()
                workers[ours] = SPAWN.Process(target=_serve, args=(function, theirs), daemon=True)
                workers[ours].start()
                theirs.close()
        yield from _shared_out(list(workers), tasks)
    finally:
        for connection, process in workers.items():
            if process.pid is not None:
                process.terminate()  # compiled code in a worker holds the GIL, so only a signal ends it at once
                process.join()
            connection.close()


def _shared_out(idle: list[Connection], tasks: Iterator[Any]) -> Iterator[Any]:
    """Results in the order of the tasks.

    Each worker answers on its own pipe. One shared pipe would hang the reader for ever where a worker is killed in the
    midst of an answer, as all of them are when the iterator is closed.
    """
    most, end = AHEAD * len(idle), object()
    given = following = 0  # tasks given out, results yielded
    busy: dict[Any, int] = {}
    found: dict[int, tuple[Any, Exception | None]] = {}
    while True:
        while idle and given < following + most and (task := next(tasks, end)) is not end:
            connection = idle.pop()
            _unless_killed(connection.send, task)
            busy[connection] = given
            given += 1
        if following in found:
            result, error = found.pop(following)
            following += 1
            if error is not None:
                raise error
            yield result
        elif busy:
            for ready in wait(list(busy)):
                found[busy.pop(ready)] = _unless_killed(ready.recv)  # type: ignore[union-attr]
                idle.append(ready)  # type: ignore[arg-type]
        else:
            return


def _unless_killed(exchange: Callable[..., Any], *values: Any) -> Any:
    try:
        return exchange(*values)
    except (EOFError, OSError):
        raise DatasetError(
            "a worker process was killed, for memory perhaps: type fewer --processes; in a script of your own, put "
            'what starts the work below `if __name__ == "__main__":`'
        ) from None


@contextlib.contextmanager
def _script_left_out(*needed: object) -> Iterator[None]:
    """Processes that start within the block do not run this process's script again, unless it defines `needed`."""
    main = sys.modules["__main__"]
    if b"__main__" not in pickle.dumps(needed):
        sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _serve(function: Callable[[Any], Any], connection: Connection) -> None:
    """A worker: answer until the parent is gone. Ctrl-C is for the parent alone."""
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
            answer = None, _sent(error)
        connection.send(answer)


def _sent(error: Exception) -> Exception:
    """The error with its traceback as a note; a RuntimeError in its place where it does not survive pickling."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        error = RuntimeError(f"{type(error).__name__}: {error}").with_traceback(error.__traceback__)
    error.add_note("".join(traceback.format_exception(error)))
    return error


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
