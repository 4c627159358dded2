"""Seconds and processor seconds of commands by how OpenMP's threads wait and how many they are, idle and busy.

    python -m benchmarks.threads                on a machine that does nothing else; a quarter of an hour on two cores
    python -m benchmarks.threads --rounds 1     each once

Prints a row for each command: wall seconds (processor seconds), the least of the rounds. `busy` is beside as many loops
as the machine has cores. What `reason` does by itself is passive, all cores.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BOARD = "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79"
WORK = {  # small and large networks, training and reading
    "train, D 64, 16 cells, 60 steps": "train sudoku-4x4 data=four run=RUN --max-steps 60",
    "train, D 128, 81 cells, 10 steps": "train sudoku-9x9 data=nine run=RUN training.batch_size=16 --max-steps 10",
    "train, D 512, 81 cells, 2 steps": "train trm-mlp-sudoku data=nine run=RUN training.batch_size=8 --max-steps 2",
    "solve a Sudoku": f"solve sudoku {BOARD}",
    "evaluate 100 Sudokus, 8 steps": "evaluate sudoku data=nine steps=8",
}
WAYS = [("active", os.cpu_count() or 1), ("passive", os.cpu_count() or 1), ("passive", 1)]


def measured(words: list[str], policy: str, threads: int) -> tuple[float, float]:
    """Wall and processor seconds of a `reason` command."""
    own = {"OMP_WAIT_POLICY": policy, "OMP_NUM_THREADS": str(threads), "TQDM_DISABLE": "1"}
    before, began = os.times(), time.perf_counter()
    command = [sys.executable, "-m", "reason", *words]
    subprocess.run(command, env=os.environ | own, stdout=subprocess.DEVNULL, check=True)
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return time.perf_counter() - began, used


def main() -> None:
    """Measure all, idle and then busy."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    rounds = parser.parse_args().rounds
    os.environ["PYTHONPATH"] = os.pathsep.join((str(Path.cwd()), os.environ.get("PYTHONPATH", "")))
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        for size, folder in ((4, "four"), (9, "nine")):
            made = f"generate sudoku --size {size} --train 200 --test 100 --seed 0 --output-dir {folder}"
            measured(made.split(), "passive", 1)
        measured(["solve", "sudoku", BOARD], "passive", 1)  # compiles the kernel
        for load in ("idle", "busy"):
            count = (os.cpu_count() or 1) if load == "busy" else 0
            loops = [subprocess.Popen([sys.executable, "-c", "while 1: pass"]) for _ in range(count)]
            print(f"| {load} |", *(f"{policy}, {threads} |" for policy, threads in WAYS), flush=True)
            for name, words in WORK.items():
                found = [
                    min(
                        measured(words.replace("RUN", f"{load}-{way}-{turn}-{len(name)}").split(), *WAYS[way])
                        for turn in range(rounds)
                    )
                    for way in range(len(WAYS))
                ]
                print(f"| {name} |", *(f"{wall:.1f} ({used:.1f}) |" for wall, used in found), flush=True)
            for loop in loops:
                loop.kill()
                loop.wait()


if __name__ == "__main__":
    main()
