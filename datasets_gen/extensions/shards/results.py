"""Results of numbered tasks in a folder that several machines share.

    DIR.shards/options.json         the options that all shards share
    DIR.shards/TASKS/12.pickle      the result of task 12 of one series of tasks

Shard i of n computes every n-th task, until it has 1/n of the puzzles. `merge` goes through the tasks in order, as one
machine does: it loads the existing results, and computes and stores the missing ones. The set therefore does not
depend on the number of shards or on their progress.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import pickle
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from datasets_gen.layout import DatasetError, read_json
from datasets_gen.parallel import PART, Result, Task
from datasets_gen.version import __version__


@dataclass(frozen=True)
class Shard:
    """A part of the work: every `of`-th task, starting at `index`; all tasks in `merge`."""

    folder: Path
    options: dict[str, Any]
    index: int = 0
    of: int = 1

    def results(
        self,
        compute: Callable[[Callable[[Any], Result], Iterable[Any]], Iterator[Result]],
        function: Callable[[Task], Result],
        tasks: Iterable[Task],
    ) -> Iterator[Result]:
        """Yield function(task) for the tasks of this shard, in order: loaded if stored, else computed and stored."""
        tasks = iter(tasks)
        if (first := next(tasks, None)) is None:
            return iter(())
        self._agree()
        series = (__version__, function.__module__, function.__qualname__, first)
        folder = self.folder / hashlib.sha256(repr(series).encode()).hexdigest()[:16]
        folder.mkdir(exist_ok=True)
        numbered = itertools.islice(enumerate(itertools.chain([first], tasks)), self.index, None, self.of)
        return compute(partial(_kept, function, folder), numbered)

    def _agree(self) -> None:
        """Record the options of the first shard; refuse a shard with other options."""
        path = self.folder / "options.json"
        if not path.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            _write(path, json.dumps(self.options).encode())
        there = read_json(path)
        for name in sorted({*there, *self.options}):
            if (was := there.get(name)) != (now := self.options.get(name)):
                raise DatasetError(
                    f"{self.folder} has shards with {name} {was}, not {now}; repeat their options, or type another "
                    "--output-dir"
                )


def _kept(function: Callable[[Any], Result], folder: Path, numbered: tuple[int, Any]) -> Result:
    """Read the result of a task from its file if it exists, else compute and write it."""
    number, task = numbered
    path = folder / f"{number}.pickle"
    if path.exists():
        kept: Result = pickle.loads(path.read_bytes())
        return kept
    result = function(task)
    _write(path, pickle.dumps(result))
    return result


def _write(path: Path, content: bytes) -> None:
    """Write a file atomically, since other machines may read or write it."""
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    part.write_bytes(content)
    part.replace(path)


@contextlib.contextmanager
def making(shard: Shard) -> Iterator[None]:
    """Make this process compute only the tasks of the shard within the block."""
    token = PART.set(shard)
    try:
        yield
    finally:
        PART.reset(token)
