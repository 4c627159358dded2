"""Reproducible parallel work: numbered random generators, and results in order from several processes."""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import pickle
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from functools import partial
from multiprocessing.connection import Connection, wait
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

import numpy as np

from datasets_gen.layout import DatasetError
from datasets_gen.progress import Progress

Task = TypeVar("Task")
Result = TypeVar("Result")

ORDER = ("train", "test", "validation")  # of generation: a validation split, asked for or not, changes no other
ALONE_SECONDS = 3.0  # shorter work ends before other processes would have started
AHEAD = 3  # tasks a worker, whose results may wait for an earlier one
SPAWN = multiprocessing.get_context("spawn")


PART: ContextVar[Any] = ContextVar("PART", default=None)
"""The share of the work that this process does, set by the extension shards; None: all of it."""


def seeded(seed: int, *key: int) -> np.random.Generator:
    """Return the generator named by (seed, key). The core only uses its `random`, whose bits numpy promises to keep."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=key)))


def share(count: int) -> int:
    """Return the number of puzzles, of `count` in all, that this process generates."""
    part = PART.get()
    return count if part is None else -(-count // part.of)


class Chunk(NamedTuple):
    """A task of a generator: random puzzles of a kind, drawn from the generator that (seed, split, number) names."""

    kind: Any  # what the family must know to draw them
    seed: int
    split: int  # index in `ORDER`
    number: int

    @property
    def rng(self) -> np.random.Generator:
        """Return the random generator of this task."""
        return seeded(self.seed, self.split, self.number)


def distinct(
    make: Callable[[Chunk], Sequence[tuple[Any, Result]]],
    kind: Any,
    counts: Mapping[str, int],
    seed: int,
    processes: int | None,
    what: str,
    hopeless: Callable[[Sequence[tuple[Any, Result]], int, int], bool],
    alone: bool = True,
) -> dict[str, list[Result]]:
    """Return for each split the first `counts` different items of the chunks 0, 1, … of a kind.

    make: returns (signature, item) of a chunk's draws; equivalent items have equal signatures, failed draws None.
    hopeless(results, misses, items): returns whether to stop with the present items, or raises DatasetError.
    misses: consecutive chunks without a new item. A process that makes a part of the set generates its share.
    """
    seen: set[Any] = set()
    by_split: dict[str, list[Result]] = {}
    with Progress(total=sum(map(share, counts.values())), desc=what, unit="puzzle") as bar:
        for split in (split for split in ORDER if counts.get(split)):
            chosen = by_split.setdefault(split, [])
            count = share(counts[split])
            misses = 0
            chunks = map(partial(Chunk, kind, seed, ORDER.index(split)), itertools.count())
            for results in ordered_map(make, chunks, processes, alone):
                before = len(chosen)
                for signature, item in results:
                    if signature is not None and signature not in seen and len(chosen) < count:
                        seen.add(signature)
                        chosen.append(item)
                bar.update(len(chosen) - before)
                misses = 0 if len(chosen) > before else misses + 1
                if hopeless(results, misses, len(seen)):
                    return by_split
                if len(chosen) == count:
                    break
    return by_split


def ordered_map(
    function: Callable[[Task], Result], tasks: Iterable[Task], processes: int | None = None, alone: bool = True
) -> Iterator[Result]:
    """Yield function(task) for every task, in order. Tasks may be endless: close the iterator when done.

    The work starts in this process and moves to `processes` others, by default as many as there are processors, after
    `ALONE_SECONDS`; at once if `alone` is false, for tasks of minutes. A script needs `if __name__ == "__main__":`
    only if it defines the function or the tasks itself. A process that makes a part takes only the tasks of that
    part. Errors of `function` are raised here, with the worker's traceback as a note.
    """
    part = PART.get()
    compute = partial(_computed, processes=processes, alone=alone)
    return compute(function, tasks) if part is None else part.results(compute, function, tasks)


def _computed(
    function: Callable[[Task], Result], tasks: Iterable[Task], processes: int | None, alone: bool
) -> Iterator[Result]:
    affinity = getattr(os, "sched_getaffinity", None)
    processes = processes or (len(affinity(0)) if affinity else os.cpu_count() or 1)
    tasks, until = iter(tasks), time.monotonic() + ALONE_SECONDS
    for task in tasks:
        if processes > 1 and (not alone or time.monotonic() > until):
            yield from _in_processes(function, task, tasks, processes)
            return
        yield function(task)


def _in_processes(
    function: Callable[[Task], Result], first: Task, tasks: Iterator[Task], processes: int
) -> Iterator[Result]:
    """Yield function(task) for the first task and the others; each process works on one task at a time.

    Each worker has a separate pipe. A shared pipe would block its reader for ever if a worker is killed while it
    writes, as all of them are at the end.
    """
    pipes = [SPAWN.Pipe() for _ in range(processes)]
    workers = [SPAWN.Process(target=_serve, args=(function, theirs), daemon=True) for _, theirs in pipes]
    with _script_left_out(function, first):
        for worker, (_, theirs) in zip(workers, pipes, strict=True):
            worker.start()
            theirs.close()
    numbered, following = enumerate(itertools.chain([first], tasks)), 0
    idle: list[Any] = [ours for ours, _ in pipes]
    busy: dict[Any, int] = {}  # the task of each pipe
    held: dict[int, tuple[Result, Exception | None]] = {}  # answers that wait for an earlier one
    try:
        while True:
            free = min(len(idle), AHEAD * processes - len(busy) - len(held))
            for number, task in itertools.islice(numbered, free):
                busy[pipe := idle.pop()] = number
                with contextlib.suppress(OSError):  # a killed worker sends nothing, see below
                    pipe.send(task)
            if following in held:
                result, error = held.pop(following)
                if error is not None:
                    raise error
                following += 1
                yield result
            elif not busy:
                return
            else:
                for pipe in wait(list(busy)):
                    held[busy.pop(pipe)] = _answer(pipe)
                    idle.append(pipe)
    finally:
        for worker in workers:
            worker.terminate()  # compiled code in a worker holds the GIL, so only a signal ends it at once
            worker.join()


def _answer(pipe: Any) -> Any:
    try:
        return pipe.recv()
    except (EOFError, OSError):
        return None, DatasetError(  # raised in its turn, after the results and faults of earlier tasks
            "a worker process was killed, perhaps for lack of memory: type fewer --processes; in your script, start "
            'the work below `if __name__ == "__main__":`'
        )


@contextlib.contextmanager
def _script_left_out(*needed: object) -> Iterator[None]:
    """Keep processes that start within the block from running this script again, unless it defines `needed`."""
    main = sys.modules["__main__"]
    if b"__main__" not in pickle.dumps(needed):
        sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _serve(function: Callable[[Any], Any], connection: Connection) -> None:
    """Run a worker: answer until the parent is gone. Ctrl-C is ignored; the parent handles it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(EOFError, OSError):
        while True:
            task = connection.recv()
            result, fault = None, None
            try:
                result = function(task)
            except Exception as error:
                error.add_note("".join(traceback.format_exception(error)))
                fault = error
            connection.send((result, fault))
