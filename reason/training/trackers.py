"""TensorBoard and Weights & Biases as further destinations of the lines of metrics.jsonl."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

from reason.errors import ConfigError

TrackerName = Literal["none", "tensorboard", "wandb"]


class Tracker(Protocol):
    """A destination of metrics besides metrics.jsonl."""

    def write(self, record: Mapping[str, Any]) -> None:
        """Log one line of metrics.jsonl."""

    def close(self) -> None:
        """Flush."""


class TensorBoard:
    """Scalars under RUN/tensorboard; a resumed run purges the steps after its checkpoint."""

    def __init__(self, run: Path, step: int):
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(run / "tensorboard", purge_step=step + 1)

    def write(self, record: Mapping[str, Any]) -> None:
        """One scalar per number of the line."""
        for name, value in numbers(record).items():
            self._writer.add_scalar(name, value, record["step"])

    def close(self) -> None:
        """Flush the event file."""
        self._writer.close()


class WeightsAndBiases:
    """One run of the project `reason`; a resumed run continues it by the id in RUN/wandb-id.

    `WANDB_MODE=offline` keeps it under RUN/wandb for `wandb sync`. W&B cannot delete the steps logged after the
    checkpoint, and ignores them when they are trained again.
    """

    def __init__(self, run: Path, config: dict[str, Any]):
        import wandb

        file = run / "wandb-id"
        if not file.exists():
            file.write_text(uuid.uuid4().hex, encoding="utf-8")
        self._run = wandb.init(
            project="reason",
            name=run.name,
            id=file.read_text(encoding="utf-8"),
            resume="allow",
            dir=str(run),
            config=config,
        )

    def write(self, record: Mapping[str, Any]) -> None:
        """The numbers of the line at its step."""
        self._run.log(numbers(record), step=record["step"])

    def close(self) -> None:
        """Finish the W&B run."""
        self._run.finish()


def numbers(record: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a line, without its step."""
    return {name: value for name, value in record.items() if isinstance(value, int | float) and name != "step"}


def tracker_of(name: TrackerName, run: Path, step: int, config: dict[str, Any]) -> Tracker | None:
    """The tracker named by training.tracker, continuing after optimizer step `step`.

    Raises:
        ConfigError: its package is not installed.
    """
    try:
        match name:
            case "tensorboard":
                return TensorBoard(run, step)
            case "wandb":
                return WeightsAndBiases(run, config)
            case "none":
                return None
    except ImportError as error:
        raise ConfigError(
            f"training.tracker={name}: {error}; type pip install 'recursive-reasoners[log]', or training.tracker=none"
        ) from None
