"""Runs one command line on a damaged copy of a small world, and judges what came of it.

Right outcomes are two: it worked, or it was refused in one line with status 1 (2 for a wrong call). Everything else is
a fault: a traceback, a hang, a message of several lines or with raw control characters, a file touched that is not the
command's own, a trained model other than the one that the undamaged world gives.
"""

import contextlib
import hashlib
import io
import os
import re
import resource
import shutil
import signal
import stat
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

from reason.cli import main

SECONDS = 15  # a small case takes a tenth of one
MEMORY = 8 * 2**30  # bytes of address space: what asks for more fails here, and leaves the machine alone
DISK = 20_000_000  # bytes that a case may add: the whole world is 200 kB
MAY_APPEAR = re.compile(r"(.*/)?\.lock|runs")  # also where a command is refused
PROGRESS = re.compile(r"\d+%\||(puzzle|step|round|it)/s")
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Hang(BaseException):
    """The command took longer than SECONDS."""


@dataclass(frozen=True)
class Case:
    """What is done to a copy of the world, the command line then run in it, and what must hold after it."""

    what: str  # in words, for the report
    damage: Callable[[Path], object]
    words: list[str]
    owned: tuple[str, ...] = ()  # folders in which the command may change what is there
    trained: str | None = None  # a run that, where the command worked, must be the undamaged one to the bit


@dataclass
class Tally:
    """How many cases ended how, and the faults, each kind once."""

    counts: dict[str, int] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)  # kind → the first case that showed it

    def add(self, case: Case, outcome: str, detail: str) -> None:
        """Count an outcome."""
        self.counts[outcome] = self.counts.get(outcome, 0) + 1
        if outcome not in ("worked", "refused"):
            self.faults.setdefault(f"{outcome}: {detail}", f"{case.what}: {' '.join(case.words)}"[:400])

    def __str__(self) -> str:
        counts = ", ".join(f"{count} {outcome}" for outcome, count in sorted(self.counts.items()))
        return counts + "".join(f"\n  {kind[:300]}\n      {first}" for kind, first in sorted(self.faults.items()))


def run_case(case: Case, world: Path, folder: Path, reference: str) -> tuple[str, str]:
    """(outcome, detail) of one case in a fresh copy of `world` at `folder`; `reference` is what `trained` must be."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(world, folder, symlinks=True)
    case.damage(folder)
    before = snapshot(folder)
    status, out, err = _run(case.words, folder)
    if isinstance(status, str):
        return ("hang", status) if status.startswith("longer") else ("traceback", status)
    detail = _said(status, out, err)
    if detail:
        return "noise", detail
    touched = _touched(before, snapshot(folder), case, status)
    if touched:
        return "touched", touched
    if status == 0 and case.trained is not None and digest(folder / case.trained) != reference:
        return "silent change", "another model came out"
    return ("worked" if status == 0 or (out.strip() and not err.strip()) else "refused"), ""


def digest(run: Path) -> str:
    """SHA-256 of the newest checkpoint's weights and averages."""
    steps = sorted(path for path in run.glob("checkpoints/step-*") if re.fullmatch(r"step-[0-9]{6}", path.name))
    if not steps:
        return "none"
    files = [steps[-1] / name for name in ("weights.safetensors", "ema.safetensors")]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files if file.is_file())).hexdigest()


def snapshot(folder: Path) -> dict[str, str]:
    """Every path below `folder` with its kind and content."""
    found = {}
    for root, folders, files in os.walk(folder):
        for name in [*folders, *files]:
            path = Path(root, name)
            mode = path.lstat().st_mode
            text = os.readlink(path) if stat.S_ISLNK(mode) else ""
            if stat.S_ISREG(mode):
                text = hashlib.sha256(path.read_bytes()).hexdigest() if path.stat().st_size < DISK else "huge"
            found[str(path.relative_to(folder))] = f"{stat.S_IFMT(mode):o} {text}"
    return found


def _touched(before: dict[str, str], after: dict[str, str], case: Case, status: int) -> str:
    """The first thing that the command should have left alone."""
    owned = case.owned if status == 0 else ()
    for path, what in sorted(before.items()):
        if not any(path == own or path.startswith(f"{own}/") for own in owned) and after.get(path) != what:
            return f"{path} {'is gone' if path not in after else 'changed'} (status {status})"
    fresh = sorted(after.keys() - before.keys())
    if any(after[path].endswith("huge") for path in fresh):
        return "more was written than a run can hold"
    outside = [path for path in fresh if not path.startswith("here/")]
    if outside:
        return f"{outside[0]} was made outside the folder that the command ran in"
    left = [path for path in fresh if not MAY_APPEAR.fullmatch(path.removeprefix("here/"))]
    if status == 1 and case.trained is not None and left:
        return f"{left[0]} was left behind by a refusal"
    return ""


def _said(status: int, out: str, err: str) -> str:
    """What is wrong with a command's exit status and its words; empty: nothing."""
    if CONTROL.search(out) or CONTROL.search(err.replace("\r", "")):
        return f"raw control characters: {_first(CONTROL, out + err)}"
    lines = [line for line in re.split(r"[\r\n]+", err) if line.strip() and not PROGRESS.search(line)]
    errors = [line for line in lines if not line.startswith("warning: ")]
    if status == 2:
        return "" if errors else "status 2 and no usage"
    if status not in (0, 1):
        return f"status {status}: {errors[:1]}"
    if status == 1 and not errors and out.strip():  # a puzzle that is not solved
        return ""
    expected = 1 if status else 0
    if len(errors) != expected or not all(line.startswith("error: ") for line in errors):
        return f"status {status} with {len(errors)} lines: {re.sub('[0-9]+', 'N', ' / '.join(errors[:3]))[:160]}"
    return f"an internal error: {err}" if status and "fault of the program" in err else ""


def _first(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    assert found is not None
    return repr(text[max(0, found.start() - 40) : found.end() + 20])


def _run(words: list[str], folder: Path) -> tuple[int | str, str, str]:
    """(status, or what was raised; stdout; stderr) of `reason WORDS…`, run in folder/here."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(err))
        stack.enter_context(patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO())))
        stack.enter_context(
            patch.object(os, "fsync", lambda _: None)
        )  # what a power cut would need, and the slowest part
        stack.enter_context(contextlib.chdir(folder / "here"))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("always")
        stack.enter_context(_limited(folder))
        try:
            return main(words), out.getvalue(), err.getvalue()
        except SystemExit as stop:
            return int(stop.code or 0), out.getvalue(), err.getvalue()
        except Hang:
            return f"longer than {SECONDS} s", out.getvalue(), err.getvalue()
        except BaseException as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            where = next(
                (f for f in reversed(traceback.extract_tb(error.__traceback__)) if "reason/" in f.filename), frame
            )
            at = f"{Path(where.filename).name}:{where.name}"
            return f"{type(error).__name__} at {at}: {str(error)[:80]!r}", out.getvalue(), err.getvalue()


# Python hears its alarm between two of its own instructions; who waits for a FIFO elsewhere is freed from outside.
RELEASE = f"""sleep {SECONDS + 2}; find "$1" -type p | while read f; do timeout 1 sh -c ': > "$1"' sh "$f"; done"""


@contextlib.contextmanager
def _limited(folder: Path) -> Iterator[None]:
    """SECONDS of time, and a bound on memory."""

    def hang(*_: object) -> None:
        raise Hang

    fifos = any(path.is_fifo() for path in folder.rglob("*"))
    release = subprocess.Popen(["sh", "-c", RELEASE, "sh", str(folder)], start_new_session=True) if fifos else None

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    previous = signal.signal(signal.SIGALRM, hang)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, hard))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        if release is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(release.pid, signal.SIGKILL)
            release.wait()
