"""Seconds until a command has answered, in processes of its own: python -m benchmarks.startup [--rounds 5]

By the clock, and of the processor (the command's and its children's); least and median. Prints Markdown.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time

PUZZLE = "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79"
COMMANDS = {
    "python -c 'import torch'": ["-c", "import torch"],
    **{
        f"reason {' '.join(words)[:30]}": ["-m", "reason", *words]
        for words in (["--help"], ["presets"], ["models"], ["solve", "sudoku", PUZZLE])
    },
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    for words in COMMANDS.values():
        once(words)  # warms
    seconds = {name: [once(words) for _ in range(rounds)] for name, words in COMMANDS.items()}
    print("| | by the clock | of the processor |\n|---|---|---|")
    for name, measured in seconds.items():
        spread = (f"{min(each):.2f} **{statistics.median(each):.2f}**" for each in zip(*measured, strict=True))
        print(f"| `{name}` | {' | '.join(spread)} |")


def once(words: list[str]) -> tuple[float, float]:
    """Seconds by the clock and of the processor."""
    started, before = time.perf_counter(), os.times()
    subprocess.run([sys.executable, *words], check=True, capture_output=True)
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return time.perf_counter() - started, used


if __name__ == "__main__":
    main()
