"""STARS table 4: what random loops and JSRR cost in training, relative to a fixed number of loops.

    OMP_NUM_THREADS=1 python benchmarks/stars_cost.py --data data/addition-4 [--preset stars-small] [--rounds 8]

Processor time of an optimizer step, variants taking turns; random loops by the mean over the same draws of T for all.
JSRR is in from the first step, K = 1 on every row, as the paper has it. Beside each the paper's ratio, measured on
Ouro-1.4B with loops μ = 1.7, σ = 0.4 in [1, 16] against T = 4.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from reason.config.overrides import Changes, derive
from reason.presets import preset
from reason.runs.build import build_trainer
from reason.runs.sets import load_training_set
from reason.training.loop import Trainer

FIXED: Changes = {"rollout.loops.distribution": "fixed", "rollout.loops.count": 4}
RANDOM: Changes = {
    "rollout.loops.distribution": "log-normal",
    "rollout.loops.mu": 1.7,
    "rollout.loops.sigma": 0.4,
    "rollout.loops.max": 16,
    "rollout.loops.start": 0,
}
PLAIN: Changes = {"loss.weights.jsrr": 0.0, "loss.schedules": {}}
JSRR: Changes = {"loss.weights.jsrr": 0.1, "loss.schedules": {}, "loss.jsrr.iterations": 1, "loss.jsrr.rows": None}
VARIANTS = {  # and the paper's ratio
    "T = 4": (FIXED | PLAIN, 1.0),
    "random loops": (RANDOM | PLAIN, 1.4976),
    "JSRR": (FIXED | JSRR, 1.5317),
    "both: STARS": (RANDOM | JSRR, 2.0439),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="a causal addition set")
    parser.add_argument("--preset", default="stars-small")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=8, help="optimizer steps of each, after one to warm up")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        trainers = {name: made(changes, arguments, Path(folder)) for name, (changes, _) in VARIANTS.items()}
        seconds: dict[str, list[float]] = {name: [] for name in trainers}
        for turn in range(arguments.rounds + 1):
            for name, trainer in trainers.items():
                started = time.process_time()
                trainer.optimizer_step()
                if turn:
                    seconds[name].append(time.process_time() - started)
    mean = {name: float(np.mean(times)) for name, times in seconds.items()}
    print("| | ms | relative | paper |\n|---|---|---|---|")
    for name, (_, claimed) in VARIANTS.items():
        print(f"| {name} | {1e3 * mean[name]:.0f} | {mean[name] / mean['T = 4']:.2f} | {claimed:.2f} |")
    rollout = trainers["random loops"].config.rollout
    drawn = [rollout.loops.draw(trainers["random loops"].config.seed, i, i) for i in range(1, arguments.rounds + 1)]
    print(f"\nmean of T drawn: {np.mean(drawn):.2f}; torch {torch.__version__}, {torch.get_num_threads()} threads")


def made(changes: Changes, arguments: argparse.Namespace, folder: Path) -> Trainer:
    common: Changes = {"data.directory": arguments.data, "training.batch_size": arguments.batch}
    config = derive(preset(arguments.preset).config(), common | changes)
    return build_trainer(config, folder, load_training_set(config, torch.device("cpu")))


if __name__ == "__main__":
    main()
