"""A process whose children train and are killed: run by test_kill.py, so that no test kills what it stands on.

`python killed.py PLAN` reads a list of {"run": DIR, "words": […], "step": N | null, "seconds": S | null, "begun": B}:
each a command line of train.py, which goes on with the run where there is one, killed by SIGKILL in the middle of
optimizer step N, or by the kernel once the process has used S seconds of processor time (`begun`: since its first
line of metrics). Says of each the wait status, the last step that metrics.jsonl holds and the newest checkpoint's. One
import of torch serves them all.
"""

import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

import reason.cli.train  # noqa: F401  here, not in every child
from reason.cli import main
from reason.training.checkpoint import checkpoints, step_of
from reason.training.log import MetricsLog, read_metrics
from reason.training.loop import Trainer


def dies_within(step: int) -> None:
    """Let this process die when the optimizer is about to move for the (step + 1)-th time."""
    whole = Trainer.optimizer_step

    def halfway(trainer: Trainer) -> torch.Tensor:
        if trainer.step == step:
            trainer.optimizers.step = lambda _: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment]
        return whole(trainer)

    Trainer.optimizer_step = halfway  # type: ignore[method-assign]


def dies_after(seconds: float, begun: bool) -> None:
    """Let the kernel end this process, wherever it is then: the default action of SIGPROF runs no code of ours."""

    def arm() -> None:
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_PROF, max(seconds, 1e-3))

    whole = MetricsLog.write

    def write(log: MetricsLog, record: Mapping[str, Any]) -> None:
        whole(log, record)
        MetricsLog.write = whole  # type: ignore[method-assign]
        arm()

    if begun:
        MetricsLog.write = write  # type: ignore[method-assign]
    else:
        arm()


def trained_and_killed(words: list[str], step: int | None, seconds: float | None, begun: bool) -> int:
    """The wait status of a child that ran train.py WORDS and was killed, or had finished before."""
    child = os.fork()
    if child == 0:
        if step is not None:
            dies_within(step)
        if seconds is not None:
            dies_after(seconds, begun)
        os._exit(main(["train", *words]))
    return os.waitpid(child, 0)[1]


if __name__ == "__main__":
    for plan in json.loads(Path(sys.argv[1]).read_text()):
        run = Path(plan["run"])
        words = [f"run={run}", "--resume"] if (run / "config.json").exists() else plan["words"]
        status = trained_and_killed(words, plan["step"], plan["seconds"], plan["begun"])
        seen = max((line["step"] for line in read_metrics(run)), default=0)
        saved = max((step_of(folder) for folder in checkpoints(run)), default=0)
        print(json.dumps({"status": status, "seen": seen, "saved": saved}), flush=True)
