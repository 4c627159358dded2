"""Results of numbered tasks in a folder that several machines share.

    DIR.shards/options.json            the options that all shards have in common
    DIR.shards/TASKS/1-of-5.results    of one series of tasks the results: number, length, CRC-32, pickle, and the next

Shard i of n makes every n-th task, until it has its n-th part of the puzzles. `merge` takes the tasks in their order,
as one machine does: it reads the results that are there, and makes and keeps those that are missing. So the set does
not depend on the number of shards, nor on how far each came. A result is appended whole; what a killed process left of
one is cut off.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import itertools
import json
import os
import pickle
import struct
import uuid
import zlib
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from datasets_gen.layout import DatasetError, read_json
from datasets_gen.parallel import PART, Result, Task
from datasets_gen.version import __version__

HEAD = struct.Struct("<QII")  # a task's number, the length of its result's pickle, and the CRC-32 of that
OWN = (
    "command",
    "directory",
    "instead",
    "interrupted",
    "output_dir",
    "processes",
    "shard",
)  # options in which shards may differ


class Place(NamedTuple):
    """Where a result lies."""

    path: Path
    start: int
    length: int

    def read(self) -> Any:
        """The result."""
        with self.path.open("rb") as file:
            file.seek(self.start)
            return pickle.loads(file.read(self.length))


@dataclass(frozen=True)
class Shard:
    """Every `of`-th task from `index` on; merging, all of them."""

    folder: Path
    options: dict[str, Any]
    index: int = 0
    of: int = 1

    def results(
        self,
        compute: Callable[[Callable[[Task], Result], Iterable[Task]], Iterator[Result]],
        function: Callable[[Task], Result],
        tasks: Iterable[Task],
    ) -> Iterator[Result]:
        """function(task) for the tasks of this shard, in order: read where it is kept, else computed and kept.

        Raises:
            DatasetError: the folder holds shards of another set.
        """
        tasks = iter(tasks)
        if (first := next(tasks, None)) is None:
            return
        self._agree()
        series = (__version__, function.__module__, function.__qualname__, first)
        kind = hashlib.sha256(repr(series).encode()).hexdigest()[:16]
        own = self.folder / kind / ("merge.results" if self.of == 1 else f"{self.index + 1}-of-{self.of}.results")
        own.parent.mkdir(exist_ok=True)
        kept: dict[int, Place] = {}
        for path in sorted({own, *own.parent.glob("*.results")}):
            kept |= _kept(path, mend=path == own)
        numbered = itertools.islice(enumerate(itertools.chain([first], tasks)), self.index, None, self.of)
        begun = len(range(self.index, max(kept, default=-1) + 1, self.of))
        with own.open("ab") as file:
            for some in (itertools.islice(numbered, begun), numbered):
                queue = _Queue(some, kept)
                computed = compute(function, queue.missing())
                while queue.numbers or queue.look():
                    number = queue.numbers.popleft()
                    if number in kept:
                        yield kept[number].read()
                    else:
                        result = next(computed)
                        _append(file, number, result)
                        yield result

    def _agree(self) -> None:
        """Record the options, or refuse others."""
        path = self.folder / "options.json"
        if not path.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            part = path.with_name(f".{path.name}.{uuid.uuid4().hex}")  # other machines may write theirs
            part.write_text(json.dumps(self.options), encoding="utf-8")
            part.replace(path)
        there = there if isinstance(there := read_json(path), dict) else {}
        for name in sorted({*there, *self.options}):
            if (was := there.get(name)) != (now := self.options.get(name)):
                raise DatasetError(
                    f"{self.folder} holds shards with {name} {was}, not {now}; repeat their options, or name another "
                    "--output-dir"
                )


class _Queue:
    """Numbered tasks, looked at no further than for the next result, or for the next task that is to be computed."""

    def __init__(self, tasks: Iterator[tuple[int, Any]], kept: Container[int]):
        self.tasks, self.kept = tasks, kept
        self.numbers: deque[int] = deque()  # of tasks that were looked at, and whose results were not asked for
        self.todo: deque[Any] = deque()  # those of these tasks that are missing, and not yet given out

    def look(self) -> bool:
        """Look at one more task; False: there is none."""
        for number, task in self.tasks:
            self.numbers.append(number)
            if number not in self.kept:
                self.todo.append(task)
            return True
        return False

    def missing(self) -> Iterator[Any]:
        """The tasks whose results are not kept."""
        while self.todo or self.look():
            if self.todo:
                yield self.todo.popleft()


def _append(file: Any, number: int, result: object) -> None:
    content = pickle.dumps(result)
    file.write(HEAD.pack(number, len(content), zlib.crc32(content)) + content)
    file.flush()


def _kept(path: Path, mend: bool) -> dict[int, Place]:
    """Where each result of a file lies, up to the first that is torn; mend: cut that off."""
    found: dict[int, Place] = {}
    if not path.exists():
        return found
    with path.open("rb") as file:
        whole = 0
        while len(head := file.read(HEAD.size)) == HEAD.size:
            number, length, check = HEAD.unpack(head)
            content = file.read(length)
            if len(content) < length or zlib.crc32(content) != check:
                break
            found[number] = Place(path, whole + HEAD.size, length)
            whole = file.tell()
    if mend:
        os.truncate(path, whole)
    return found


def folder_of(directory: Path) -> Path:
    """Where the shards of a set are kept."""
    return directory.with_name(f"{directory.name}.shards")


def kept(directory: Path) -> str:
    """What Ctrl-C prints where results are kept."""
    return f"interrupted: {folder_of(directory)} keeps what was made; the same command goes on there"


@contextlib.contextmanager
def making(shard: Shard) -> Iterator[None]:
    """Within the block this process makes the shard."""
    token = PART.set(shard)
    try:
        yield
    finally:
        PART.reset(token)


def common(options: argparse.Namespace) -> dict[str, Any]:
    """The options that decide what the set holds, as JSON gives them back; of a page of one's own its text, too."""
    found = {name: value for name, value in vars(options).items() if name not in OWN}
    page = Path(options.generator)
    if page.suffix == ".py":
        found["sha256 of the page"] = hashlib.sha256(page.read_bytes()).hexdigest()
    return dict(json.loads(json.dumps(found | {"version": __version__})))
