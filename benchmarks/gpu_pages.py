"""Train the network of every declared puzzle on a GPU for a given time each, evaluate it, and pack its weights.

    python -m datasets_gen killer --train 2500 --validation 200 --test 500 --output-dir data/killer
    python -m benchmarks.gpu_pages runs/pages data/killer data/nonogram … --minutes 1.5 [section.key=value …]

A set's folder has the name of its page, and so has its preset. The last lines are a table: accuracy by step, by the
rules where a puzzle may have several solutions.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from benchmarks.gpu_sudoku import pack, train_for
from reason.files import read_json
from reason.presets.declared import PAGES

RECIPE = {
    "training.batch_size": "256",
    "training.precision": "bf16",
    "training.compile": "none",  # compiling takes longer than a page is trained
    "training.monitor.puzzles": "0",
    "optimizer.schedule.warmup_steps": "100",
}
STEPS = 64
SHOWN = (1, 4, 16, 64)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path)
    parser.add_argument("words", nargs="+", metavar="SET | section.key=value")
    parser.add_argument("--minutes", type=float, default=1.5)
    arguments = parser.parse_intermixed_args()
    own = dict(word.split("=", 1) for word in arguments.words if "=" in word)
    sets = [Path(word) for word in arguments.words if "=" not in word]
    if unknown := [str(each) for each in sets if each.name not in PAGES]:
        parser.error(f"{unknown[0]} has no preset of its name; there are {', '.join(PAGES)}")
    rows = []
    for data in sets:
        run = arguments.runs / data.name
        train_for(arguments.minutes, data.name, RECIPE | own | {"data.directory": str(data)}, run)
        compute = [f"steps={STEPS}", "name=test", "evaluation.compile=none", "evaluation.batch_size=1024"]
        subprocess.run([sys.executable, "-m", "reason", "evaluate", str(run), *compute], check=True)
        pack(run, arguments.runs / f"{data.name}-weights.tar.gz")
        found = read_json(run / "evaluation" / "test" / "results.json")
        for kind in ("exact", "valid"):
            shares = "".join(f"{100 * found[f'{kind}_by_step'][step - 1]:7.1f}" for step in SHOWN)
            rows.append(f"{data.name:16} {kind} {shares}")
    print(f"percent at steps {SHOWN}", *rows, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
