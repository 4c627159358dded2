"""A process of several, which a signal may meet on its way.

`peer.py PLAN` is the second of two processes, the test itself the first: it runs the command lines of a list of
{"port": P, "words": [...]}, one world after the other. With "stops": N it stops (SIGSTOP) when it is about to take the
optimizer step after N.

`torchrun … peer.py SIGNAL STEP WORDS…` is `reason WORDS…`; at the first attempt rank 1 gets SIGNAL (0: none) when it is
about to take the optimizer step after STEP.
"""

import json
import os
import sys
from pathlib import Path
from signal import SIGSTOP

import torch

from reason.cli import main
from reason.training.loop import Trainer


def training(data, run, settings):
    """The words that train the 4×4 preset with some settings."""
    return ["train", "sudoku-4x4", f"data={data}", f"run={run}", *(f"{key}={each}" for key, each in settings.items())]


def in_world(rank, port, words):
    """`reason WORDS…` as process `rank` of two; the variables are those that torchrun sets."""
    world = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    world["TORCHELASTIC_RUN_ID"] = "test"
    os.environ |= {name: str(value) for name, value in world.items()}
    try:
        return main(words)
    finally:
        for name in world:
            del os.environ[name]


def meets(number, step):
    """This process gets a signal when it is about to take the optimizer step after `step`; 0 is none."""
    whole = Trainer.optimizer_step

    def halfway(trainer):
        if trainer.step == step:
            os.kill(os.getpid(), number)
        return whole(trainer)

    Trainer.optimizer_step = halfway  # type: ignore[method-assign]


if __name__ == "__main__" and "RANK" in os.environ:
    signal, step, *words = sys.argv[1:]
    torch.set_num_threads(1)
    if os.environ["RANK"] == "1" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        meets(int(signal), int(step))
    sys.exit(main(words))
elif __name__ == "__main__":
    for plan in json.loads(Path(sys.argv[1]).read_text()):
        if "stops" in plan:
            meets(SIGSTOP, plan["stops"])
        assert in_world(1, plan["port"], plan["words"]) == 0
