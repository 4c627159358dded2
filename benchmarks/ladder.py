"""One rung of the ladder of trainings that need a GPU for minutes at a time (docs/log/papers.md).

    python benchmarks/ladder.py trm-mlp --out OUT --minutes 12 [section.key=value …]
    python benchmarks/ladder.py trm-mlp --out OUT --minutes 12 --parts OUT/trm-mlp.tar.gz.*      goes on, on any card
    python benchmarks/ladder.py trm-128 --out OUT --minutes 600 training.steps=15625 training.compile=inductor \\
        training.precision=fp32 model.fused=false                                 2 million puzzle-steps on a core

Trains for so many minutes, then packs the run into parts of 15 MiB below OUT and evaluates it: OUT/RUNG.json. With
seed=1 the run is RUNG-seed-1. A training that goes on keeps its settings.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path

REAL = "data=data/sudoku-real-1k"  # 1,000 published puzzles in Sudoku-Extreme's proportions; symmetries are drawn
FAST = ["training.precision=bf16", "training.compile=graph"]
# The most sample-efficient recipe that is known for TRM's network, as far as our settings have it.
MUON = [
    "optimizer.kind=muon", "optimizer.eps=none", "optimizer.muon_lr=0.02", "optimizer.lr=1e-4",
    "optimizer.weight_decay=0.005", "optimizer.schedule.kind=cosine", "optimizer.grad_clip=1", "ema.decay=0.9",
    "model.activation=tanh", "data.augment=true",
]  # fmt: skip
EQUAL = [  # of TRM-128 and CMM-128: 20 million puzzle-steps, by the recipe that teaches whole boards
    "data.augment=true", "data.hints=30", "model.mixer=mlp", "model.positions=none", "model.num_layers=1",
    "model.repeats=2", "model.h_cycles=1", "model.l_cycles=2", "model.activation=tanh", "rollout.grad_steps=1",
    "rollout.accum_steps=1", "rollout.carry=persistent", "rollout.staggered=true", "rollout.supervision_steps=8",
    "optimizer.kind=muon", "optimizer.eps=none", "optimizer.muon_lr=0.005", "optimizer.lr=1e-3",
    "optimizer.weight_decay=0.005", "optimizer.schedule.kind=cosine", "optimizer.schedule.min_ratio=0.05",
    "optimizer.schedule.warmup_steps=100", "optimizer.grad_clip=1", "ema.warmup=true", "training.batch_size=128",
    "training.steps=156250",
]  # fmt: skip
TRM_512 = ["model.h_cycles=6", "model.l_cycles=9", "training.batch_size=384", "training.steps=8000", *MUON]
RUNGS = {  # preset and settings, in the order of the ladder; the first is benchmarks/gpu.py
    "trm-mlp": ["trm-mlp-sudoku", REAL, *TRM_512],
    "trm-att": ["trm-att-sudoku", REAL, *TRM_512],
    "trm-128": ["cmm-9-2", REAL, *EQUAL],
    "cmm-128": ["cmm-10-5", REAL, *EQUAL, "balance.every=16", "model.noise=none"],
    "cmm-128-nsde": ["cmm-10-5", REAL, *EQUAL, "balance.every=16"],
    "stars-512": ["stars-jsrr"],
    "maze-att": ["trm-att-maze"],
}
PART = 15 * 2**20  # bytes


def train(words: list[str], run: Path, minutes: float, parts: list[Path]) -> None:
    """Begin the run, or go on with it or with the one in the parts, by the settings that it began with."""
    if finished(run):
        return
    if parts and not run.exists():
        archive = run.with_name(f"{run.name}.tar.gz")
        archive.parent.mkdir(parents=True, exist_ok=True)
        archive.write_bytes(b"".join(part.read_bytes() for part in sorted(parts)))
        words = [str(archive), f"run={run}", "--resume"]
    else:
        words = ["--resume", f"run={run}"] if run.exists() else [*words, f"run={run}"]
    reason("train", *words, "--max-minutes", f"{minutes}")


def finished(run: Path) -> bool:
    """Has its last checkpoint all steps of its config?"""
    config = json.loads((run / "config.json").read_text())["config"] if run.exists() else None
    return config is not None and (run / f"checkpoints/step-{config['training']['steps']:06}").exists()


def pack(run: Path, out: Path) -> None:
    """The run in parts of at most PART bytes."""
    archive = out / f"{run.name}.tar.gz"
    reason("pack", str(run), str(archive))
    content = archive.read_bytes()
    archive.unlink()
    for number, start in enumerate(range(0, len(content), PART)):
        (out / f"{archive.name}.{number:02}").write_bytes(content[start : start + PART])


def reason(*words: str) -> None:
    """One command; its failure ends this one, and Ctrl-C when it has ended: a training saves first."""
    child, interrupted = subprocess.Popen([sys.executable, "-m", "reason", *words]), False
    while child.poll() is None:
        try:
            child.wait()
        except KeyboardInterrupt:
            interrupted = True
    if interrupted or child.returncode:
        raise SystemExit(child.returncode or 130)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rung", choices=RUNGS)
    parser.add_argument("settings", nargs="*", metavar="section.key=value")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=11)
    parser.add_argument("--parts", type=Path, nargs="*", default=[], metavar="PART")
    parser.add_argument("--evaluate", default="steps=64 evaluation.limit=1000", help="settings of the evaluation")
    a = parser.parse_intermixed_args(argv)
    seed = next((f"-{word.replace('=', '-')}" for word in a.settings if word.startswith("seed=")), "")
    run = Path("runs") / f"{a.rung}{seed}"
    a.out.mkdir(parents=True, exist_ok=True)
    given = {setting.partition("=")[0] for setting in a.settings}
    words = [word for word in (*RUNGS[a.rung], *FAST) if word.partition("=")[0] not in given]
    train([*words, *a.settings], run, a.minutes, a.parts)
    pack(run, a.out)
    reason("evaluate", str(run), *a.evaluate.split())
    newest = max((run / "evaluation").glob("*/results.json"), key=lambda file: file.stat().st_mtime)
    shutil.copy(newest, a.out / f"{run.name}.json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
