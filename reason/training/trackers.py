"""TensorBoard and Weights & Biases: the lines of metrics.jsonl, drawn elsewhere too."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

from reason.errors import ConfigError

TrackerName = Literal["none", "tensorboard", "wandb"]


class Tracker(Protocol):
    """Where metrics go besides metrics.jsonl."""

    def write(self, record: Mapping[str, Any]) -> None:
        """Take in one line of metrics.jsonl."""

    def close(self) -> None:
        """Write out what is held back."""


class TensorBoard:
    """Scalars under RUN/tensorboard; a resumed run takes back what came after its checkpoint."""

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
    """One run of the project `reason`, known again when it resumes by the id in RUN/wandb-id.

    `WANDB_MODE=offline` keeps it under RUN/wandb for `wandb sync`. What a lost stretch logged stays there: W&B takes no
    line back, and passes over the steps that are trained again.
    """

    def __init__(self, run: Path, config: dict[str, Any]):
        import wandb

        file = run / "wandb-id"
        if not file.exists():
            file.write_text(uuid.uuid4().hex)
        self._run = wandb.init(
            project="reason", name=run.name, id=file.read_text(), resume="allow", dir=str(run), config=config
        )

    def write(self, record: Mapping[str, Any]) -> None:
        """The numbers of the line at its step."""
        self._run.log(numbers(record), step=record["step"])

    def close(self) -> None:
        """Tell W&B that this process is done."""
        self._run.finish()


def numbers(record: Mapping[str, Any]) -> dict[str, float]:
    """What of a line can be drawn against its step."""
    return {name: value for name, value in record.items() if isinstance(value, int | float) and name != "step"}


def tracker_of(name: TrackerName, run: Path, step: int, config: dict[str, Any]) -> Tracker | None:
    """The tracker that training.tracker names, going on after optimizer step `step`.

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
            f"training.tracker={name}: {error}; type pip install 'reason[log]', or training.tracker=none"
        ) from None
