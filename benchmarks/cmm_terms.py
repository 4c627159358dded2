"""What each of CMM's parts costs: processor time of an optimizer step as a ratio to TRM's, variants taking turns.

    OMP_NUM_THREADS=1 python benchmarks/cmm_terms.py --data data/sudoku-6x6

Processor time, so that other work on the machine counts little; the median over the rounds.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from reason.config.overrides import override
from reason.presets import preset
from reason.runs.build import build_trainer
from reason.runs.sets import load_training_set
from reason.training.loop import Trainer

TERMS = {"rep_x": 1e3, "rep_z": 1e3, "equil_x": 1, "equil_z": 1, "rh_unstable_x": 10, "rh_stable_z": 1e4}
WEIGHTS = {f"loss.weights.{name}": str(weight) for name, weight in TERMS.items()}
BALANCED = WEIGHTS | {"balance.kind": "alg-grad-norm"}


def variants(quarter: str) -> dict[str, dict[str, str]]:
    """Changes to sudoku-6x6; `quarter` of the rows, in a number."""
    return {
        "TRM": {},
        "additive noise": {"model.noise": "additive"},
        "gradient checkpointing": {"model.gradient_checkpointing": "true"},
        **{name: {key: weight} for (key, weight), name in zip(WEIGHTS.items(), TERMS, strict=True)},
        "rh_stable_z on a quarter of the rows": {"loss.weights.rh_stable_z": "1e4", "loss.trace.rows": quarter},
        "all eight terms": WEIGHTS,
        "all eight, RH on a quarter of the rows": WEIGHTS | {"loss.trace.rows": quarter},
        "all eight, AlgGradNorm at every step": BALANCED,
        "all eight, AlgGradNorm at every 7th step": BALANCED | {"balance.every": "7"},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="a 6x6 Sudoku set")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        trainers = {
            name: made(changes, arguments, Path(folder))
            for name, changes in variants(str(arguments.batch // 4)).items()
        }
        seconds: dict[str, list[float]] = {name: [] for name in trainers}
        for turn in range(arguments.rounds + 1):
            for name, trainer in trainers.items():
                steps = 7 if "7th" in name else 1
                started = time.process_time()
                for _ in range(steps):
                    trainer.optimizer_step()
                if turn:  # the first is to warm up
                    seconds[name].append((time.process_time() - started) / steps)
    medians = {name: float(np.median(times)) for name, times in seconds.items()}
    for name, median in medians.items():
        print(f"{name:42} {1e3 * median:7.0f} ms  {median / medians['TRM']:.2f} ×")
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, batch {arguments.batch}")


def made(changes: dict[str, str], arguments: argparse.Namespace, folder: Path) -> Trainer:
    common = {"data.directory": arguments.data, "training.batch_size": str(arguments.batch)}
    config = override(preset("sudoku-6x6").config(), common | changes)
    return build_trainer(config, folder, load_training_set(config, torch.device("cpu")))


if __name__ == "__main__":
    main()
