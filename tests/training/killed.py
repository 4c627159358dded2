"""A process whose children train and are killed: run by test_kill.py, so that no test kills what it stands on.

`python killed.py PLAN` reads a list of {"words": [...], "step": N | null, "seconds": S | null}: each a command line of
train.py, killed by SIGKILL in the middle of optimizer step N, or after S seconds. One import of torch serves them all.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import torch

from reason.cli import main
from reason.training.loop import Trainer


def dies_within(step: int) -> None:
    """Let this process die when the optimizer is about to move for the (step + 1)-th time."""
    whole = Trainer.optimizer_step

    def halfway(trainer: Trainer) -> torch.Tensor:
        if trainer.step == step:
            trainer.optimizers.step = lambda _: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment]
        return whole(trainer)

    Trainer.optimizer_step = halfway  # type: ignore[method-assign]


def trained_and_killed(words: list[str], step: int | None, seconds: float | None) -> int:
    """The wait status of a child that ran train.py WORDS and was killed, or had finished before."""
    child = os.fork()
    if child == 0:
        if step is not None:
            dies_within(step)
        os._exit(main(["train", *words]))
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]


if __name__ == "__main__":
    for plan in json.loads(Path(sys.argv[1]).read_text()):
        print(trained_and_killed(plan["words"], plan["step"], plan["seconds"]), flush=True)
