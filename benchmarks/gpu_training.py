"""Train the recipe for real Sudokus, or for mazes, at D 128 on a GPU for a given time, and pack its weights.

    python -m benchmarks.real_sudoku train FILE.csv --output-dir data/sudoku-real
    python -m benchmarks.neighbours data/sudoku-real --output-dir data/sudoku-real-near
    python -m benchmarks.gpu_training sudoku-9x9-long data/sudoku-real,data/sudoku-real-near RUN [section.key=value …]

The cosine schedule needs the number of steps. So a run of SPEED steps is timed first, in its second half, and the
training has as many steps as fit in the rest of the time. RUN-weights.tar.gz is the run without the states of its
batch, a few MiB: for evaluate.py, solve and init_from, not for --resume.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tarfile
import time
from pathlib import Path

from safetensors.torch import load_file

from benchmarks.ladder import reason
from reason.training.checkpoint import readable, save_checkpoint, step_of
from reason.training.log import read_metrics

SHARED = {
    "model.hidden_size": "128",
    "optimizer.schedule.warmup_steps": "300",
    "training.precision": "bf16",
    "training.compile": "inductor",
    "training.monitor.puzzles": "0",
    "training.checkpoint_every": "3000",
}
RECIPES = {  # in place of the preset's own settings
    "sudoku-9x9-long": SHARED | {"data.hints": "3", "optimizer.muon_lr": "0.015", "training.batch_size": "448"},
    "maze-any": SHARED
    | {
        "optimizer.muon_lr": "0.006",
        "optimizer.lr": "0.0015",
        "optimizer.schedule.min_ratio": "0.01",
        "training.batch_size": "512",
    },
}
SPEED = 160  # steps
RESERVE = 50  # seconds to start, to compile three sizes from the cache, and to pack
TRAINING = 0.96  # of the rest; checkpoints take theirs


def train(preset: str, settings: dict[str, str], run: Path, *limit: str) -> None:
    words = [f"{key}={value}" for key, value in settings.items()]
    reason("train", preset, *words, f"run={run}", *limit)


def train_for(minutes: float, preset: str, settings: dict[str, str], run: Path) -> None:
    """Train as many steps as fit into so many minutes, with the steps that tell the speed."""
    ends = time.monotonic() + 60 * minutes
    timed = run.with_name(f"{run.name}-speed")
    train(preset, settings, timed, "--max-steps", str(SPEED))
    speed = steps_per_second(timed)
    shutil.rmtree(timed)
    left = ends - time.monotonic() - RESERVE
    if left <= 0:
        raise SystemExit(f"{minutes:g} minutes were over before the training began; give more --minutes")
    steps = max(1, int(speed * left * TRAINING))
    print(f"{run.name}: {speed:.2f} steps/s, {steps} steps in {left:.0f} s", flush=True)
    train(preset, settings | {"training.steps": str(steps)}, run, "--max-minutes", str((left + RESERVE / 2) / 60))


def steps_per_second(run: Path) -> float:
    """From the log lines of the second half of a run."""
    times = [(line["step"], line["seconds"]) for line in read_metrics(run) if "seconds" in line]
    (first, began), (last, ended) = times[len(times) // 2], times[-1]
    return float((last - first) / (ended - began))


def pack(run: Path, packed: Path) -> None:
    """Config, metrics and the newest checkpoint without the state of training."""
    folder = next(readable(run))
    weights, average = (load_file(folder / f"{name}.safetensors") for name in ("weights", "ema"))
    thin = run.with_name(f"{run.name}-weights") / run.name
    thin.mkdir(parents=True)
    for name in ("config.json", "metrics.jsonl"):
        shutil.copy(run / name, thin)
    save_checkpoint(thin, step_of(folder), weights, average, {"step": step_of(folder)})
    with tarfile.open(packed, "w:gz") as archive:
        archive.add(thin, run.name)
    shutil.rmtree(thin.parent)
    print(f"{packed}: {packed.stat().st_size / 2**20:.1f} MiB")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("preset", choices=RECIPES)
    parser.add_argument("data", help="the sets, DIR,DIR: a batch of each in turn")
    parser.add_argument("run", type=Path)
    parser.add_argument("settings", nargs="*", metavar="section.key=value", help="in place of the recipe's")
    parser.add_argument("--minutes", type=float, default=20)
    arguments = parser.parse_intermixed_args()
    own = dict(word.split("=", 1) for word in arguments.settings)
    settings = RECIPES[arguments.preset] | own | {"data.directory": arguments.data}
    train_for(arguments.minutes, arguments.preset, settings, arguments.run)
    pack(arguments.run, arguments.run.with_name(f"{arguments.run.name}-weights.tar.gz"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
