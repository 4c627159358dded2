"""Hours by hand, `pytest -m soak -s`: a long training, 1,000 kills, 1,200 signals, 10,000 fuzz cases.

REASON_SOAK=0.01 runs a hundredth of each count; --fuzz-seed N draws other moments and cases. Every fault is listed at
the end of its test, so that one fault does not hide the next.
"""

import gzip
import hashlib
import itertools
import json
import math
import os
import random
import re
import shutil
import signal
import time
from collections import Counter
from pathlib import Path

import pytest
from conftest import NARROW, output, pairs
from forked import begin, strike
from harness import snapshot
from test_fuzz import FAMILIES as FUZZED
from test_fuzz import tally_of, world  # noqa: F401  a fixture
from test_kill import FAMILIES, words
from test_loop import hold_equal

from reason.training.checkpoint import checkpoints, step_of
from reason.training.log import read_metrics

pytestmark = pytest.mark.soak

SCALE = float(os.environ.get("REASON_SOAK", "1"))
PRESETS = ("sudoku-6x6-cmm-node", "sudoku-6x6-cmm-nsde", "sudoku-6x6-groups")
EVERY = 3  # optimizer steps between checkpoints
MOST = 4  # signals to one ablation before it is left to end
FAULT = re.compile(r"Traceback|fault of the program|^error: .*", re.M)


def scaled(count: float) -> int:
    return max(1, math.ceil(SCALE * count))


class Struck:
    """Signals sent at random moments to commands; how these ended, and what was wrong."""

    def __init__(self, folder: Path, seed: int):
        self.moments, self.log = random.Random(seed), folder / "log"
        self.signals, self.ends, self.faults = 0, Counter[str](), Counter[str]()

    def ends_well(self, what: str, words: list[str]) -> float:
        """Let a command end; its seconds."""
        status, seconds = strike(words, self.log)
        self.judge(status == 0, f"{what}: status {status} without a signal")
        return seconds

    def strike(self, what: str, words: list[str], number: int, within: float) -> None:
        """Send a command a signal; it may have ended before."""
        status, _ = strike(words, self.log, number, self.moments.uniform(0, within))
        self.ends[f"{signal.Signals(number).name} → {status}"] += 1
        self.signals += status != 0
        self.judge(status in (0, -number, 128 + number), f"{what}: status {status} after signal {number}")

    def judge(self, right: bool, fault: str) -> None:
        """Note a fault, or what the command that ran last said of one, with its words."""
        if said := FAULT.search(self.log.read_text(errors="replace")):
            right, fault = False, f"{fault}; {said[0]}"
        if not right:
            self.faults[fault] += 1
            print(f"FAULT {fault}\n{self.log.read_text(errors='replace')[-2000:]}", flush=True)

    def __str__(self) -> str:
        return f"{self.signals} signals, faults {dict(self.faults)}, {dict(sorted(self.ends.items()))}"


@pytest.fixture
def struck(tmp_path: Path, request: pytest.FixtureRequest) -> Struck:
    return Struck(tmp_path, request.config.getoption("--fuzz-seed"))


def contents(checkpoint: Path) -> str:
    """SHA-256 of a checkpoint's tensors: weights, averages, moments, carry, random states."""
    files = sorted(checkpoint.glob("*.safetensors"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


@pytest.mark.parametrize("family", [*FAMILIES, *PRESETS])
def test_kills(family: str, struck: Struck, monitored_4x4: Path, tmp_path: Path) -> None:
    """What each kill left equals the unbroken training to the bit, and lost no checkpoint; so does the end."""
    count = scaled(1000 / len([*FAMILIES, *PRESETS]))
    settings = {"steps": 100_000, "checkpoint_every": EVERY, "log_every": 1}

    def line(run: Path, **more: int) -> list[str]:
        preset, *rest = words(monitored_4x4, run, FAMILIES.get(family, {}), **settings, **more)
        return ["train", family if family in PRESETS else preset, *rest]

    run, whole, left, saved, seen = tmp_path / "run", tmp_path / "whole", {}, 0, 0
    while struck.signals < count:
        typed = ["train", f"run={run}", "--resume"] if (run / "config.json").exists() else line(run)
        struck.strike(family, typed, signal.SIGKILL, within=0.7)
        if there := checkpoints(run):
            newest = step_of(there[-1])
            struck.judge(newest >= max(saved, seen - EVERY), f"{family}: {seen} seen, {saved} → {newest} saved")
            seen, saved = max((record["step"] for record in read_metrics(run)), default=0), newest
            left[newest] = contents(there[-1])
    end = ["--max-steps", str(saved + 2 * EVERY)]
    struck.ends_well(family, ["train", f"run={run}", "--resume", *end])
    struck.ends_well(family, [*line(whole, keep_checkpoints=100_000), *end])
    unbroken = {step_of(folder): contents(folder) for folder in checkpoints(whole)}
    others = [step for step, content in left.items() if unbroken[step] != content]
    struck.judge(not others, f"{family}: other tensors at steps {others}")
    hold_equal(run, whole)
    print(f"{time.ctime()} {family}: {struck}; {len(left)} checkpoints equal, {saved} steps", flush=True)
    assert not struck.faults


def one(folder: Path) -> object:
    """A set's or an archive's content; of an evaluation and of an ablation what no clock decides. None: absent."""
    if folder.is_file():
        return gzip.decompress(folder.read_bytes())
    if (file := folder / "results.json").exists():
        listed = json.loads((folder / ".written.json").read_text())
        found = json.loads(file.read_text())
        there = sorted(path.name for path in folder.iterdir() if path.stat().st_size)
        return {k: v for k, v in found.items() if "second" not in k}, there == sorted([*listed, ".written.json"])
    if (folder / "ablation.json").exists():  # walked, as a run that outlived its killed ablation may still write
        there = {re.sub(r"step-\d+", "step", f"{root}/{name}") for root, _, files in os.walk(folder) for name in files}
        file = folder / "summary/summary.json"
        return file.exists() and file.read_text(), {path for path in there if not path.endswith((".lease", ".lock"))}
    return snapshot(folder) if folder.exists() else None


SHORT = [*(word for word in NARROW if "steps" not in word), "training.steps=3", "evaluation.boards=0"]
COMMANDS: dict[str, str] = {
    "generate": "generate sudoku --size 4 --train 24 --test 12 --seed 1 --output-dir {out}",
    "evaluate": "evaluate {run} steps=2 evaluation.boards=0 name=e",
    "pack": "pack {run} {out}",
    "ablate": f"ablate sudoku-4x4 data={{set}} model.h_cycles=2,1 seeds=1 {' '.join(SHORT)} --out {{out}}",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_signals_at_random_moments(command: str, struck: Struck, half: Path, sudoku_4x4: Path, tmp_path: Path) -> None:
    """After each there is the old output or the new, whole; the command again ends with the same."""
    place = tmp_path / "place"
    out = half / "evaluation/e" if command == "evaluate" else place / ("out.tar.gz" if command == "pack" else "out")
    typed = COMMANDS[command].format(run=half, out=out, set=sudoku_4x4).split()

    def fresh() -> None:
        shutil.rmtree(out) if out.is_dir() else out.unlink(missing_ok=True)
        if (tmp_path / "old").exists():
            shutil.copytree(tmp_path / "old", out)

    if command == "evaluate":
        struck.ends_well(command, [word.replace("steps=2", "steps=1") for word in typed])
        shutil.copytree(out, tmp_path / "old")
    out.parent.mkdir(exist_ok=True)
    old = one(out)
    seconds = struck.ends_well(command, typed)
    new, around = one(out), set(os.listdir(out.parent))
    assert new != old
    count, numbers = scaled(300), itertools.cycle([signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
    while struck.signals < count:
        fresh()
        for _ in range(MOST if command == "ablate" else 1):
            struck.strike(command, typed, next(numbers), seconds)
            if one(out) == new:
                break
            struck.judge(command == "ablate" or one(out) == old, f"{command}: neither the old nor the new")
        if one(out) != new:
            struck.ends_well(command, typed)
            struck.judge(one(out) == new, f"{command}: again it came to something else")
            left = {re.sub("[0-9a-f]{4,}", "N", name) for name in os.listdir(out.parent) if name not in around}
            struck.judge(not left, f"{command}: left {left}")
        for name in set(os.listdir(out.parent)) - around:  # by one that was killed after it had put all in place
            shutil.rmtree(out.parent / name)
    print(f"{time.ctime()} {command}: {struck}", flush=True)
    assert not struck.faults


@pytest.mark.parametrize("family", FUZZED)
def test_fuzz(family: str, world: tuple[Path, str], request: pytest.FixtureRequest) -> None:  # noqa: F811
    """Each works or is refused in one line: 10,000, as there are but 143 strange folders."""
    cases, count = FUZZED[family]
    share = count / sum(count for _, count in FUZZED.values())
    tally = tally_of(cases, scaled(10_200 * share), request.config.getoption("--fuzz-seed"), world)
    print(f"{time.ctime()} {family}: {tally}", flush=True)
    assert not tally.faults


def resident(pid: int) -> float:
    """Memory of a process that is its own, in MB; pages of files are the system's."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(fields["RssAnon"].split()[0]) / 1024


def files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
def test_memory_stays_flat(monitored_4x4: Path, tmp_path: Path) -> None:
    """48,000 steps with a monitor, and evaluations in this process meanwhile; the first tenth of them warms up."""
    steps, run, curve = scaled(48_000), tmp_path / "run", []
    changes = "model.h_cycles=1 model.l_cycles=1 model.num_layers=1 model.hidden_size=8 training.monitor.every=100"
    settings = {"steps": steps, "checkpoint_every": max(1, steps // 100), "log_every": 100}
    process = begin(["train", *words(monitored_4x4, run, pairs(changes), **settings)], tmp_path / "log")
    while process.exitcode is None:
        process.join(0.5)
        step = max((step_of(folder) for folder in checkpoints(run)), default=-1)
        if process.exitcode is None and step >= len(curve) * steps / 100:
            training = resident(process.pid), files(process.pid)  # first: it may end meanwhile
            output(["evaluate", str(run), "steps=4", "name=e", "evaluation.boards=0"])
            curve.append((step, *training, resident(os.getpid()), files(os.getpid())))
            print("{}: training {:.1f} MB, {} files; evaluation {:.1f} MB, {} files".format(*curve[-1]), flush=True)
    assert process.exitcode == 0, (tmp_path / "log").read_text()
    _, *columns = zip(*curve[len(curve) // 10 :], strict=True)
    for memory in columns[::2]:
        assert max(memory) <= 1.02 * memory[0]
    for count in columns[1::2]:  # one more is open for a moment while a checkpoint is written
        assert min(count[-10:]) <= min(count[:10])
