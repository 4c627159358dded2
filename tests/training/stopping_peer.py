"""The second of two processes, which stops (SIGSTOP) within a step: `python stopping_peer.py PORT STEP WORDS…`."""

import os
import signal
import sys

import torch
from peer import in_world

from reason.training.loop import Trainer


def stops_within(step: int) -> None:
    """Let this process stop when it is about to take the optimizer step after `step`."""
    whole = Trainer.optimizer_step

    def halfway(trainer: Trainer) -> torch.Tensor:
        if trainer.step == step:
            os.kill(os.getpid(), signal.SIGSTOP)
        return whole(trainer)

    Trainer.optimizer_step = halfway  # type: ignore[method-assign]


if __name__ == "__main__":
    stops_within(int(sys.argv[2]))
    in_world(1, int(sys.argv[1]), sys.argv[3:])
