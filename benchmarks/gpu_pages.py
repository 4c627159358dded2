"""Train the network of every declared puzzle on a GPU, and a plain TRM as long beside it; evaluate and pack them.

    python -m datasets_gen killer --train 2500 --validation 200 --test 500 --output-dir data/killer
    python -m benchmarks.gpu_pages runs/pages data/killer data/nonogram … --minutes 2 --jobs 8 [section.key=value …]

A set's folder has the name of its page, and so has its preset. The plain TRM has an MLP mixer (the preset sudoku-6x6);
where the constraints differ from puzzle to puzzle, they follow its cells as tokens (benchmarks.constraints_as_tokens).
Small networks leave a GPU waiting for the processor, so several train at once; minutes are those of each. The last
lines are a table: accuracy by step, by the rules where a puzzle may have several solutions.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.gpu_training import pack, train_for
from reason.files import read_json
from reason.presets.declared import PAGES

RECIPE = {
    "training.batch_size": "256",
    "training.precision": "bf16",
    "training.compile": "none",  # compiling takes longer than a page is trained
    "training.monitor.puzzles": "0",
    "training.log_every": "10",
    "training.checkpoint_every": "100000",  # its end alone
    "optimizer.schedule.warmup_steps": "100",
}
PLAIN = RECIPE | {"optimizer.schedule.kind": "cosine"}
QUIET = subprocess.DEVNULL
TIMING = 40  # steps that tell the speed
STEPS = 64
SHOWN = (1, 4, 16, 64)


def with_tokens(data: Path) -> Path:
    """The set for a network that reads tokens alone, made where the constraints differ from puzzle to puzzle."""
    if not (data / "train" / "all__relations.npy").exists():
        return data
    made = data.with_name(f"{data.name}-tokens")
    if not made.exists():
        command = [sys.executable, "-m", "benchmarks.constraints_as_tokens", str(data), "--output-dir", str(made)]
        subprocess.run(command, check=True)
    return made


def measure(data: Path, preset: str, settings: dict[str, str], run: Path, minutes: float) -> list[str]:
    """Train, evaluate and pack one run; the rows of the table."""
    train_for(minutes, preset, settings | {"data.directory": str(data)}, run, TIMING)
    steps = f"steps={STEPS}"
    compute = [steps, "name=test", "evaluation.compile=none", "evaluation.batch_size=500", "evaluation.boards=0"]
    subprocess.run([sys.executable, "-m", "reason", "evaluate", str(run), *compute], check=True, stdout=QUIET)
    pack(run, run.with_name(f"{run.name}-weights.tar.gz"))
    found = read_json(run / "evaluation" / "test" / "results.json")
    rows = []
    for kind in ("exact", "valid"):
        if by_step := found.get(f"{kind}_by_step"):  # none without rules
            shares = "".join(f"{100 * by_step[step - 1]:7.1f}" for step in SHOWN)
            rows.append(f"{run.name:24} {kind} {shares}")
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path)
    parser.add_argument("words", nargs="+", metavar="SET | section.key=value")
    parser.add_argument("--minutes", type=float, default=2)
    parser.add_argument("--jobs", type=int, default=1, help="trainings at once")
    parser.add_argument("--only", choices=("own", "plain"), help="the network of the constraints, or the plain TRM")
    arguments = parser.parse_intermixed_args()
    own = dict(word.split("=", 1) for word in arguments.words if "=" in word)
    sets = [Path(word) for word in arguments.words if "=" not in word]
    if unknown := [str(each) for each in sets if each.name not in PAGES]:
        parser.error(f"{unknown[0]} has no preset of its name; there are {', '.join(PAGES)}")
    plans = []
    for data in sets:
        if arguments.only != "plain":
            plans.append((data, data.name, RECIPE | own, arguments.runs / data.name))
        if arguments.only != "own":
            plans.append((with_tokens(data), "sudoku-6x6", PLAIN | own, arguments.runs / f"{data.name}-plain"))
    with ThreadPoolExecutor(arguments.jobs) as pool:
        waiting = [pool.submit(measure, *plan, arguments.minutes) for plan in plans]
    print(f"percent at steps {SHOWN}")
    for (_, _, _, run), measured in zip(plans, waiting, strict=True):
        failure = measured.exception()
        print(*(measured.result() if failure is None else [f"{run.name:24} failed: {failure}"]), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
