"""Minutes until the monitor reads an accuracy."""

from __future__ import annotations

import contextlib
import time
from typing import Any

from datasets_gen.layout import splits_of
from reason.config.schema import Config
from reason.errors import ConfigError
from reason.runs.build import start
from reason.runs.sets import make_data_once


def minutes_to(config: Config, accuracy: float, held: contextlib.ExitStack) -> dict[str, Any]:
    """Train on the config's own set in a new run, until the monitor reads `accuracy` or the steps are over.

    The minutes are those of training: compiling, readings of the monitor and checkpoints included; making the set,
    loading it and building the model are not.

    Raises:
        ConfigError: there is no monitor, which needs a validation split.
    """
    make_data_once(config)
    watched = any("validation" in splits_of(directory) for directory in config.data.directories)
    if not config.training.monitor.puzzles or not watched:
        raise ConfigError(f"{config.name} has no validation split to read an accuracy from; name another preset")
    trainer = start(config, None, held, make_data=False)
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
