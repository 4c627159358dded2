"""A process whose children train and are killed: run by test_kill.py, so that no test kills what it stands on.

`python killed.py PLAN` reads a list of {"run": DIR, "words": […], "step": N | null, "seconds": S | null, "begun": B}:
each a command line of train.py, which goes on with the run where there is one, killed by SIGKILL in the middle of
optimizer step N, or after S seconds (`begun`: after its first line of metrics). Says of each the wait status, the last
step that metrics.jsonl holds and the newest checkpoint's. One import of torch serves them all.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import torch

import reason.cli.train  # noqa: F401  here, not in every child
from reason.cli import main
from reason.training.checkpoint import checkpoints, step_of
from reason.training.log import read_metrics
from reason.training.loop import Trainer


def dies_within(step: int) -> None:
    """Let this process die when the optimizer is about to move for the (step + 1)-th time."""
    whole = Trainer.optimizer_step

    def halfway(trainer: Trainer) -> torch.Tensor:
        if trainer.step == step:
            trainer.optimizers.step = lambda _: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment]
        return whole(trainer)

    Trainer.optimizer_step = halfway  # type: ignore[method-assign]


def trained_and_killed(run: Path, words: list[str], step: int | None, seconds: float | None, begun: bool) -> int:
    """The wait status of a child that ran train.py WORDS and was killed, or had finished before."""
    before = metrics_time(run)
    child = os.fork()
    if child == 0:
        if step is not None:
            dies_within(step)
        os._exit(main(["train", *words]))
    if seconds is not None:
        for _ in range(3000):
            if not begun or metrics_time(run) > before:
                break
            time.sleep(0.1)
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]


def metrics_time(run: Path) -> int:
    """When metrics.jsonl was last written to by a step."""
    file = run / "metrics.jsonl"
    return file.stat().st_mtime_ns if file.exists() and file.stat().st_size else 0


if __name__ == "__main__":
    for plan in json.loads(Path(sys.argv[1]).read_text()):
        run = Path(plan["run"])
        words = [f"run={run}", "--resume"] if (run / "config.json").exists() else plan["words"]
        status = trained_and_killed(run, words, plan["step"], plan["seconds"], plan["begun"])
        seen = max((line["step"] for line in read_metrics(run)), default=0)
        saved = max((step_of(folder) for folder in checkpoints(run)), default=0)
        print(json.dumps({"status": status, "seen": seen, "saved": saved}), flush=True)
