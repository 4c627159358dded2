"""What Muon's iterations cost in float32 and, as torch.optim.Muon has them, matrix by matrix in bfloat16.

    OMP_NUM_THREADS=1 python benchmarks/muon_cost.py [PRESET …] [--rounds 6]

Processor time of whole optimizer steps, eager, in turns; the sets are made where they are missing.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import torch
from torch import Tensor

import reason.training.optim as muon
from reason.config.overrides import derive
from reason.presets import preset
from reason.runs.build import build_trainer
from reason.runs.sets import load_training_set, make_data_once
from reason.training.loop import Trainer

STEPS = 6  # of each kind in a turn


def in_bfloat16(matrices: Tensor) -> Tensor:
    """One matrix after the other."""
    return torch.cat([FLOAT32(matrix[None].bfloat16()).to(matrices) for matrix in matrices])


FLOAT32 = muon.orthogonalized
KINDS = {"float32": FLOAT32, "bfloat16": in_bfloat16}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("presets", nargs="*", default=["maze-10x10-narrow", "maze-any", "sudoku-9x9"])
    parser.add_argument("--rounds", type=int, default=6)
    arguments = parser.parse_args()
    print("| preset | ms, float32 | ms, bfloat16 | ratio: least, median, greatest |\n|---|---|---|---|")
    for name in arguments.presets:
        with tempfile.TemporaryDirectory() as folder:
            trainer = made(name, Path(folder))
            turns = [{kind: timed(trainer, kind) for kind in KINDS} for _ in range(arguments.rounds + 1)][1:]
        ratios = sorted(turn["bfloat16"] / turn["float32"] for turn in turns)
        own, other = (1e3 * statistics.median(turn[kind] for turn in turns) for kind in KINDS)
        spread = " ".join(f"{ratio:.2f}" for ratio in (ratios[0], statistics.median(ratios), ratios[-1]))
        print(f"| {name} | {own:.0f} | {other:.0f} | {spread} |", flush=True)


def made(name: str, folder: Path) -> Trainer:
    config = derive(preset(name).config(), {"training.precision": "fp32", "training.compile": "none"})
    make_data_once(config)
    return build_trainer(config, folder, load_training_set(config, torch.device("cpu")))


def timed(trainer: Trainer, kind: str) -> float:
    """Seconds of processor time a step."""
    muon.orthogonalized = KINDS[kind]  # type: ignore[assignment]
    started = time.process_time()
    for _ in range(STEPS):
        trainer.optimizer_step()
    return (time.process_time() - started) / STEPS


if __name__ == "__main__":
    main()
