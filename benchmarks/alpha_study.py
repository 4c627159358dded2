"""The α of AlgGradNorm (CMM eq. 53), which the paper does not give: the same training for several α and seeds.

    python benchmarks/alpha_study.py runs/alpha --alphas 0,0.25,0.5,1 --seeds 0,1

The task is 6×6 Sudoku, sudoku-6x6-cmm-node with the six terms of CMM's tables 9 to 11 (no Routh-Hurwitz), λ(0) = 1,
messages in rows, columns and boxes in place of the MLP over cells, D 48, B 32: one run is two minutes of one thread.
c_LM is as given (1 in CMM's tables 9 and 10, 2 in table 8, 10 in table 11). Each run is trained and evaluated by the
ordinary commands in a folder SHARE-ALPHA-SEED; a run that is there is resumed, and one that is evaluated is only read.
Prints Markdown: exact accuracy on the test split after supervision step 1 and after the last trained one; LM, and the
shares of the gradient that LM and halting had, over the last log lines.
"""

from __future__ import annotations

import argparse
import json
from itertools import product
from pathlib import Path

import numpy as np

from reason.cli import main as reason
from reason.training.log import read_metrics

CHANGES = (
    "loss.weights.rh_unstable_x=0", "loss.weights.rh_stable_z=0", "balance.every=8", "training.monitor.puzzles=0",
    "model.mixer=groups", "model.hidden_size=48", "model.expansion=2", "training.batch_size=32",
)  # fmt: skip
LAST = 10  # log lines that are averaged


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--alphas", default="0,0.25,0.5,1")
    parser.add_argument("--seeds", default="0,1")
    parser.add_argument("--shares", default="10", help="c_LM")
    parser.add_argument("--preset", default="sudoku-6x6-cmm-node")
    parser.add_argument("--data", default="data/sudoku-6x6")
    parser.add_argument("--steps", type=int, default=1500)
    options = parser.parse_args()
    print("| c_LM | α | seed | exact at step 1 | at the last trained | n | LM | LM's share of G | halting's |")
    print("|---" * 9 + "|")
    for share, seed, alpha in product(*(each.split(",") for each in (options.shares, options.seeds, options.alphas))):
        run = options.folder / f"{share}-{alpha}-{seed}"
        if not (run / "evaluation/test/results.json").exists():
            trained(run, share, alpha, seed, options)
        print(f"| {share} | {alpha} | {seed} {row(run)}", flush=True)


def trained(run: Path, share: str, alpha: str, seed: str, options: argparse.Namespace) -> None:
    words = [options.preset, *CHANGES, f"data={options.data}", f"training.steps={options.steps}"]
    words += [f"run={run}", f"balance.alpha={alpha}", f"seed={seed}", f'balance.targets={{"lm": {share}}}']
    assert reason(["train", *([f"run={run}", "--resume"] if run.exists() else words)]) == 0
    if read_metrics(run)[-1]["step"] < options.steps:
        raise SystemExit(f"{run} was stopped; the same command goes on with it")
    assert reason(["evaluate", str(run), "name=test"]) == 0


def row(run: Path) -> str:
    results = json.loads((run / "evaluation/test/results.json").read_text())
    lines = [line for line in read_metrics(run) if "loss/lm" in line][-LAST:]
    norms = {key: np.mean([line[key] for line in lines]) for key in lines[-1] if key.startswith("norm/")}
    share = {key: value / sum(norms.values()) for key, value in norms.items()}
    first, last = (results["exact_by_step"][step - 1] for step in (1, results["trained_steps"]))
    return (
        f"| {first:.1%} | {last:.1%} | {results['puzzles']} | "
        f"{np.mean([line['loss/lm'] for line in lines]):.3f} | {share['norm/lm']:.1%} | {share['norm/q_halt']:.1%} |"
    )


if __name__ == "__main__":
    main()
