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
        """Is this rank 0, which writes files and prints?"""
        return self.rank == 0

    def mine(self, batch: Batch) -> Batch:
        """This process's rows."""
        own = self.portion(len(batch.inputs))
        return batch.each(lambda part: part[own.start : own.stop])

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum over all processes."""
        return tensor

    def mean(self, tensor: Tensor) -> Tensor:
        """The mean over all processes."""
        return self.sum(tensor) / self.size

    def gather(self, tensor: Tensor) -> Tensor:
        """Concatenate every process's tensor, of one shape, along dim 0."""
        return tensor

    def gather_rows(self, value: Any) -> Any:
        """A carry's field over all processes: a (B, ...) tensor, or a named tuple of them as a list."""
        return [self.gather(part) for part in value] if isinstance(value, tuple) else self.gather(value)

    def own_rows(self, value: Any, device: torch.device) -> Any:
        """This process's rows, on its device, of a result of `gather_rows`."""
        if isinstance(value, list):
            return [self.own_rows(part, device) for part in value]
        own = self.portion(len(value))
        return value[own.start : own.stop].to(device)

    def portion(self, rows: int) -> range:
        """This process's part of `rows`, which need not divide evenly; the parts partition the rows."""
        return range(self.rank * rows // self.size, (self.rank + 1) * rows // self.size)

    def collect(self, items: list[Item]) -> list[Item]:
        """The items of all processes, the first process's first."""
        return items

    def any(self, flag: bool) -> bool:
        """Is `flag` true in any process? All then stop at the same step."""
        return any(self.collect([flag]))

    def tell(self, text: str) -> str:
        """The text of rank 0."""
        return self.collect([text])[0]

    def await_first(self) -> None:
        """Wait until the first process is here too, however long its work takes."""

    def average_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Each gradient becomes the mean over processes; a sparse one every process's rows, each divided by them."""


def several() -> bool:
    """Whether the environment says that there are several processes."""
    return (os.environ.get("WORLD_SIZE") or "1") != "1"


def joined(device: torch.device) -> contextlib.AbstractContextManager[World]:
    """The process group of torchrun; without torchrun, only this process."""
    return extension("torchrun", "world").joined(device) if several() else contextlib.nullcontext(World())


def device_of_process(name: str) -> str:
    """`cuda` or `auto` under torchrun: the GPU of this process's local rank."""
    return extension("torchrun", "world").device_of_process(name) if several() else name


def goes_on(run: str | None) -> bool:
    """Does torchrun start processes anew that fail, and has an earlier attempt begun the run in this folder?"""
    restarts = os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0") != "0"
    return restarts and extension("torchrun", "world").goes_on(run)
