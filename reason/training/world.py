"""The processes that train together: one, unless torchrun has started several (the extension torchrun)."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, nn

from reason.plugins import extension

if TYPE_CHECKING:
    from reason.models.base import Batch

Item = TypeVar("Item")


@dataclass(frozen=True)
class World:
    """One process: every collective returns its argument. The extension torchrun has a subclass for several."""

    rank: int = 0
    size: int = 1

    @property
    def first(self) -> bool:
        """Return whether this is rank 0, which writes files and prints."""
        return self.rank == 0

    def mine(self, batch: Batch) -> Batch:
        """Return this process's rows."""
        own = self.portion(len(batch.inputs))
        return batch.each(lambda part: part[own.start : own.stop])

    def sum(self, tensor: Tensor) -> Tensor:
        """Return the sum over all processes."""
        return tensor

    def mean(self, tensor: Tensor) -> Tensor:
        """Return the mean over all processes."""
        return self.sum(tensor) / self.size

    def gather(self, tensor: Tensor) -> Tensor:
        """Concatenate every process's tensor, of one shape, along dim 0."""
        return tensor

    def gather_rows(self, value: Any) -> Any:
        """Return a carry's field over all processes: a (B, ...) tensor, or nested tuples of them as lists."""
        return [self.gather_rows(v) for v in value] if isinstance(value, tuple | list) else self.gather(value)

    def own_rows(self, value: Any, device: torch.device) -> Any:
        """Return this process's rows, on its device, of a result of `gather_rows`."""
        if isinstance(value, list):
            return [self.own_rows(part, device) for part in value]
        own = self.portion(len(value))
        return value[own.start : own.stop].to(device)

    def portion(self, rows: int) -> range:
        """Return this process's part of `rows`, which need not divide evenly; the parts partition the rows."""
        return range(self.rank * rows // self.size, (self.rank + 1) * rows // self.size)

    def collect(self, items: list[Item]) -> list[Item]:
        """Return the items of all processes, the first process's first."""
        return items

    def any(self, flag: bool) -> bool:
        """Return whether `flag` is true in any process, so that all stop at the same step."""
        return any(self.collect([flag]))

    def tell(self, text: str) -> str:
        """Broadcast the text of rank 0."""
        return self.collect([text])[0]

    def await_first(self) -> None:
        """Wait until the first process arrives, without a time limit."""

    def average_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Average gradients over processes; a sparse one gets all processes' rows, divided by their number."""


def several() -> bool:
    """Return whether the environment names several processes."""
    return (os.environ.get("WORLD_SIZE") or "1") != "1"


def joined(device: torch.device) -> contextlib.AbstractContextManager[World]:
    """Return the process group of torchrun; without torchrun, only this process."""
    return extension("torchrun", "world").joined(device) if several() else contextlib.nullcontext(World())


def device_of_process(name: str) -> str:
    """Return the device `name`; under torchrun `cuda` and `auto` become the GPU of this process's local rank."""
    return extension("torchrun", "world").device_of_process(name) if several() else name


def restarted_by_torchrun(run: str | None) -> bool:
    """Return whether torchrun restarts failed processes and an earlier attempt has begun the run in this folder."""
    restarts = os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0") != "0"
    return restarts and extension("torchrun", "world").restarted_by_torchrun(run)
