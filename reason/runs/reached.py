"""Time until the monitor reads an accuracy."""

from __future__ import annotations

import contextlib
import time
from typing import Any

from reason.config.schema import Config
from reason.runs.start import start


def minutes_to(config: Config, accuracy: float, held: contextlib.ExitStack) -> dict[str, Any]:
    """Train on the config's own set in a new run, until the monitor reads `accuracy` or the steps are over.

    The minutes are those of training: compiling, readings of the monitor and checkpoints included; making the set,
    loading it and building the model are not.

    Raises:
        ConfigError: there is no monitor, which needs a validation split.
    """
    trainer = start(config, None, held, make_data=True, monitored=True)
    every = config.training.monitor.every or config.training.checkpoint_every
    processor = time.process_time()
    finished = False
    while not finished and (trainer.best is None or trainer.best.exact < accuracy):
        stopped_by = trainer.train(max_steps=(trainer.step // every + 1) * every).stopped_by
        finished = stopped_by is None or not stopped_by.startswith("--max-steps")  # else a signal
    best = trainer.best
    return {
        "accuracy": accuracy,
        "reached": best is not None and best.exact >= accuracy,
        "exact": None if best is None else best.exact,
        "puzzles": None if best is None else best.puzzles,
        "step": trainer.step if best is None else best.step,
        "minutes": trainer.seconds / 60,
        "processor_minutes": (time.process_time() - processor) / 60,
        "compile": trainer.config.training.compile,
        "computed_in": trainer.model.computes_in,
        "run": str(trainer.run),
    }
