"""TensorBoard and Weights & Biases, for training.tracker."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reason.training.log import TRACKERS, Tracker


def tensorboard(run: Path, step: int, config: dict[str, Any]) -> Tracker:
    """Write scalars to RUN/tensorboard; a resumed run purges the steps after its checkpoint."""
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(run / "tensorboard", purge_step=step + 1)

    def write(record: Mapping[str, Any]) -> None:
        for name, value in numbers(record).items():
            writer.add_scalar(name, value, record["step"])

    return Tracker(write, writer.close)


def weights_and_biases(run: Path, step: int, config: dict[str, Any]) -> Tracker:
    """Return one run of the project `reason`; a resumed run continues it by the id in RUN/wandb-id.

    `WANDB_MODE=offline` stores it in RUN/wandb for `wandb sync`. W&B cannot delete steps logged after the checkpoint,
    and ignores them when they are trained again.
    """
    import wandb

    file = run / "wandb-id"
    if not file.exists():
        file.write_text(uuid.uuid4().hex, encoding="utf-8")
    name = {"name": run.name, "id": file.read_text(encoding="utf-8"), "dir": str(run)}
    there = wandb.init(project="reason", resume="allow", config=config, **name)
    return Tracker(lambda record: there.log(numbers(record), step=record["step"]), there.finish)


def numbers(record: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of a line, without its step."""
    return {name: value for name, value in record.items() if isinstance(value, int | float) and name != "step"}


TRACKERS |= {"tensorboard": tensorboard, "wandb": weights_and_biases}
