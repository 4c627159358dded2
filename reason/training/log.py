"""metrics.jsonl, the trackers, and the accumulated metrics."""

from __future__ import annotations

import contextlib
import json
import math
import os
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from reason.errors import ConfigError
from reason.models.base import IGNORE, correct
from reason.nn.dtypes import widest_float
from reason.plugins import installed
from reason.rollout import Carry, SupervisionStep
from reason.training.device import peak_memory
from reason.training.world import World

if TYPE_CHECKING:
    from reason.training.loop import Trainer


class Tracker(NamedTuple):
    """A destination of metrics besides metrics.jsonl."""

    write: Callable[[Mapping[str, Any]], None]  # called with each line
    close: Callable[[], None]


TRACKERS: dict[str, Callable[[Path, int, dict[str, Any]], Tracker]] = {}  # name → open(run, step, config)


class MetricsLog:
    """metrics.jsonl: one JSON object a line, flushed at once; a checkpoint stores `position`."""

    def __init__(self, path: Path | None, position: int = 0, tracker: Tracker | None = None):
        """Open for appending after the first `position` bytes; lines after the checkpoint's position are removed.

        A shorter file (lost, or cut by a power failure) gives a warning and is kept up to its last complete line.
        `tracker` gets every line as well. Without a path nothing is written, since another process writes.
        """
        self._tracker = tracker
        self._file = None if path is None else path.open("a+b")
        if path is None or self._file is None:
            return
        if self.position < position:
            warnings.warn(f"{path} has lost lines: the checkpoint knows of {position} bytes", stacklevel=2)
            position = path.read_bytes().rfind(b"\n") + 1
        self._file.truncate(position)

    def write(self, record: Mapping[str, Any]) -> None:
        """Append one line; NaN and infinity (an overflowed norm) become null."""
        if self._file is None:
            return
        record = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in record.items()}
        self._file.write(json.dumps(record, allow_nan=False).encode() + b"\n")
        self._file.flush()
        if self._tracker is not None:
            self._tracker.write(record)

    @property
    def position(self) -> int:
        """Return the bytes written so far."""
        return 0 if self._file is None else self._file.seek(0, 2)

    def sync(self) -> int:
        """Write the file to disk, before a checkpoint stores its position, and return the position."""
        if self._file is not None:
            os.fsync(self._file.fileno())
        return self.position

    def close(self) -> None:
        """Close the file, and the tracker."""
        if self._file is not None:
            self._file.close()
        if self._tracker is not None:
            self._tracker.close()


def read_metrics(run: Path | str) -> list[dict[str, Any]]:
    """Return the records of a run's metrics.jsonl; skip lines that are not an object with a step, such as a cut one."""
    path = Path(run) / "metrics.jsonl"
    if not path.exists():
        return []
    records = []
    for line in path.read_bytes().split(b"\n")[:-1]:
        with contextlib.suppress(ValueError, RecursionError):
            record = json.loads(line)
            if isinstance(record, dict) and isinstance(record.get("step"), int):
                records.append(record)
    return records


class Meters:
    """Sums on the device between two log lines, so that a step never waits for the host.

    Each process sums its rows; `read` and `state_dict` sum over processes.
    """

    def __init__(self, device: torch.device, world: World):
        self.world = world
        self.zero = torch.zeros((), dtype=widest_float(device), device=device)
        self.sums: dict[str, Tensor] = {}
        self.spoiled = torch.zeros((), dtype=torch.bool, device=device)  # a gradient was NaN or infinite

    @torch.no_grad()
    def add(
        self, step: SupervisionStep, carry: Carry, terms: Mapping[str, Tensor], weights: Mapping[str, float | Tensor]
    ) -> None:
        """Count one supervision step; accuracy is that of rows that have just halted."""
        right, exact = correct(step.readouts[-1].logits.argmax(-1), step.batch.labels)
        scored = (step.batch.labels != IGNORE).sum(-1).clamp(min=1)
        done = carry.halted & step.active
        self._sum("steps", 1)
        self._sum("loops", len(step.states))
        self._sum("finished", done.sum())
        self._sum("exact", (done & exact).sum())
        self._sum("cell", (done * right.sum(-1) / scored).sum())
        self._sum("mean_steps", (done * step.steps).sum())
        for name, loss in terms.items():
            self._sum("loss", weights[name] * loss.to(self.zero.dtype))
            self._sum(f"loss/{name}", loss)
            self._sum(f"times/{name}", 1)  # a term may start at a later step

    def _sum(self, name: str, value: Tensor | float) -> None:
        self.sums[name] = self.sums.get(name, self.zero) + value

    def read(self) -> dict[str, float | None]:
        """Return the means since the last call, and reset (this waits for the device)."""
        totals = {name: total.item() for name, total in self.state_dict().items()}
        for total in self.sums.values():
            total.zero_()  # in place, for a captured step
        steps = totals["steps"]
        finished = totals["finished"]
        terms = [name.removeprefix("times/") for name, times in totals.items() if name.startswith("times/") and times]
        return {
            "loss": totals["loss"] / steps,
            **{f"loss/{name}": totals[f"loss/{name}"] / totals[f"times/{name}"] for name in terms},
            **{name: totals[name] / finished if finished else None for name in ("exact", "cell", "mean_steps")},
            "finished": finished,
            "loops": totals["loops"] / steps,
        }

    def broken(self) -> str | None:
        """Return the first term that was infinite or NaN since the last `read` (this waits for the device)."""
        losses = {name: total for name, total in self.state_dict().items() if name.startswith("loss/")}
        return next((name[5:] for name, total in losses.items() if not total.isfinite()), None)

    def state_dict(self) -> dict[str, Tensor]:
        """Return the sums over all processes, for a checkpoint between two log lines."""
        return {name: self.world.sum(total) for name, total in self.sums.items()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Load saved sums: rank 0 holds them, the others start from 0."""
        share = float(self.world.first)
        self.sums = {name: total.to(self.zero.device) * share for name, total in state.items()}


def log_line(trainer: Trainer, norm: Tensor, log: MetricsLog) -> str:
    """Write the means since the last line (this waits for the device); return them in short for the progress bar."""
    c = trainer.config
    means = trainer.meters.read()
    drawn = trainer.index * c.training.batch_size
    speed = drawn / trainer.seconds
    log.write({
        "step": trainer.step,
        "epoch": drawn / c.rollout.accum_steps / trainer.data.groups,
        "puzzle_steps": drawn,
        **means,
        "gradient_norm": norm.item(),
        "lr": c.optimizer.lr * c.optimizer.schedule.factor(trainer.step - 1, c.training.steps),
        **trainer.scaling.figures(),
        "seconds": trainer.seconds,
        "puzzle_steps_per_second": speed,
        "memory_peak": peak_memory(trainer.device),
        **({} if trainer.balancer is None else trainer.balancer.metrics()),
    })  # fmt: skip
    exact = "" if means["exact"] is None else f", exact {means['exact']:.1%}"
    return f"loss {means['loss']:.3f}{exact}, {speed:.0f} puzzle-steps/s"


def open_log(trainer: Trainer) -> MetricsLog:
    """Open metrics.jsonl and the tracker of a run at its checkpoint's position; only rank 0 writes."""
    if not trainer.world.first:
        return MetricsLog(None)
    path, name = trainer.run / "metrics.jsonl", trainer.config.training.tracker
    if name == "none":
        return MetricsLog(path, trainer.log_position)
    if name not in TRACKERS:
        trackers = f"trackers are {', '.join(TRACKERS)}" if TRACKERS else "no tracker is installed"
        raise ConfigError(f"training.tracker={name}: {trackers}; type training.tracker=none; {installed()}")
    try:
        tracker = TRACKERS[name](trainer.run, trainer.step, trainer.config.model_dump(mode="json"))
    except ImportError as error:
        raise ConfigError(
            f"training.tracker={name}: {error}; type pip install 'recursive-reasoners[log]', or training.tracker=none"
        ) from None
    return MetricsLog(path, trainer.log_position, tracker)
