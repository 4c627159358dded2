"""A Sudoku set larger than memory: what training, checking and evaluation take of it, beside the set it is made of.

    python -m benchmarks.large_set make SMALL LARGE [--puzzles 20000000]
    python -m benchmarks.large_set watch COMMAND …

`make` copies a set, and fills the train split of the copy with random symmetric copies of the training puzzles, written
part by part. `watch` runs a command and prints its seconds, by the clock and of the processor, and its peak of resident
memory: all, and the part that is not pages of files ("anonymous"), which is looked at every 20 ms.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import torch
from numpy.lib.format import open_memmap

from reason.data import PuzzleData, augment, task_of

ROWS = 2**16  # copies made at once
INTERVAL = 0.02  # seconds between two looks at a process's memory


def make(small: Path, large: Path, puzzles: int) -> None:
    """Write the set; the puzzles are different but for chance, as a 9×9 Sudoku has some 10^12 symmetric copies."""
    data = PuzzleData(small, "train")
    puzzle = task_of(data.metadata)
    assert puzzle is not None
    assert puzzle.symmetry is not None
    shutil.copytree(small, large)
    folder, generator = large / "train", torch.Generator().manual_seed(0)
    shape = (puzzles, data.metadata.seq_len)
    names = ("inputs", "labels")
    tokens = [open_memmap(folder / f"all__{name}.npy", "w+", np.uint8, shape) for name in names]
    for first in range(0, puzzles, ROWS):
        count = min(ROWS, puzzles - first)
        batch = augment(data.take(torch.arange(first, first + count) % len(data)), puzzle.symmetry, generator)
        for array, drawn in zip(tokens, (batch.inputs, batch.labels), strict=True):
            array[first : first + count] = drawn.numpy()
    owners = np.arange(puzzles + 1, dtype=np.int32)
    for name in ("puzzle_indices", "group_indices"):
        np.save(folder / f"all__{name}.npy", owners)
    np.save(folder / "all__puzzle_identifiers.npy", np.zeros(puzzles, np.int32))
    if data.ratings is not None:
        np.save(folder / "all__ratings.npy", np.resize(data.ratings, puzzles))
    stated = json.loads((folder / "dataset.json").read_text())
    stated |= {"total_groups": puzzles, "total_puzzles": puzzles, "provenance": {"symmetric copies of": str(small)}}
    (folder / "dataset.json").write_text(json.dumps(stated))


def watch(command: list[str]) -> int:
    """Run a command; its exit status."""
    started, anonymous, peak = time.perf_counter(), 0, 0
    process = subprocess.Popen(command)
    while process.poll() is None:
        try:
            lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
        except OSError:  # it has just ended
            break
        found = {key: int(value.split()[0]) for key, value in (line.split(":", 1) for line in lines) if "kB" in value}
        anonymous, peak = max(anonymous, found.get("RssAnon", 0)), max(peak, found.get("VmHWM", 0))
        time.sleep(INTERVAL)
    status, seconds = process.wait(), time.perf_counter() - started
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"{seconds:.1f} s, {used.ru_utime + used.ru_stime:.1f} s of the processor, peak {peak / 1024:.0f} MiB, "
        f"anonymous {anonymous / 1024:.0f} MiB: {' '.join(command)}"
    )
    return status


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="name", required=True)
    making = commands.add_parser("make")
    making.add_argument("small", type=Path)
    making.add_argument("large", type=Path)
    making.add_argument("--puzzles", type=int, default=20_000_000)
    watching = commands.add_parser("watch")
    watching.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if options.name == "watch":
        sys.exit(watch(options.command))
    make(options.small, options.large, options.puzzles)


if __name__ == "__main__":
    main()
