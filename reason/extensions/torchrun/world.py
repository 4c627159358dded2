"""Data parallelism under torchrun: the rows of a global batch are divided among the processes.

Gradients are averaged here, once an optimizer step, not by DistributedDataParallel, which gives the same bits at the
same speed but cannot average the sparse gradients of puzzle embeddings on GPUs (docs/log/performance.md).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from reason.errors import ConfigError, PartnerLost
from reason.training.world import Item, World

PATIENCE = timedelta(minutes=10)  # for a common decision, one per step; a checkpoint is written in seconds
LONGER = timedelta(minutes=30)  # to join, and for NCCL, which ends the process at its timeout
A_DAY = timedelta(days=1)  # for the first process to generate the set


@dataclass(frozen=True)
class Processes(World):
    """The processes of one torchrun, and the groups through which they communicate."""

    control: Any = None  # a gloo group for decisions of the host, which need not wait for the device
    patient: Any = None  # another, with a timeout of a day
    tensors: Any = None  # the group whose tensors are summed and gathered; none: NCCL's

    def sum(self, tensor: Tensor) -> Tensor:
        """Return the sum over all processes."""
        total = tensor.clone()
        dist.all_reduce(total, group=self.tensors)
        return total

    def gather(self, tensor: Tensor) -> Tensor:
        """Concatenate every process's tensor, of one shape, along dim 0."""
        here = tensor.int() if tensor.dtype == torch.int16 else tensor  # no backend sends int16
        here = here.cuda() if dist.get_backend() == "nccl" else here
        parts = [torch.empty_like(here) for _ in range(self.size)]
        dist.all_gather(parts, here.contiguous(), group=self.tensors)
        return torch.cat(parts).to(tensor)

    def collect(self, items: list[Item]) -> list[Item]:
        """Return the items of all processes, in the order of the processes."""
        parts: list[list[Item]] = [[] for _ in range(self.size)]
        dist.all_gather_object(parts, items, group=self.control)
        return [item for part in parts for item in part]

    def await_first(self) -> None:
        """Wait for the first process, without a short timeout."""
        dist.broadcast(torch.zeros(1), 0, group=self.patient)

    def _alike_long(self, rows: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Pad the entries of a sparse gradient (n, 1), (n, D) to one length in all processes; values are 0."""
        missing = max(self.collect([len(rows)])) - len(rows)
        zeros = values.new_zeros(missing, values.shape[1])
        return torch.cat([rows, rows[:1].expand(missing, -1)]), torch.cat([values, zeros])

    def average_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Replace each gradient by the mean over processes; a sparse one gets all rows, divided by the processes."""
        for parameter in parameters:
            gradient = parameter.grad
            if gradient is None:
                continue
            if gradient.is_sparse:
                rows, values = self._alike_long(gradient._indices().t(), gradient._values())
                rows, values = self.gather(rows).t(), self.gather(values) / self.size
                parameter.grad = torch.sparse_coo_tensor(rows, values, gradient.shape, check_invariants=False)
            else:
                dist.all_reduce(gradient, group=self.tensors)
                gradient /= self.size


@contextlib.contextmanager
def joined(device: torch.device) -> Iterator[World]:
    """Join the process group of torchrun. Raises PartnerLost if another process has stopped or ended."""
    size = world_size()
    if device.type == "cuda":
        torch.cuda.set_device(device)
    try:
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=LONGER)
        control, patient = (dist.new_group(backend="gloo", timeout=t) for t in (PATIENCE, A_DAY))
        yield Processes(dist.get_rank(), size, control, patient, None if device.type == "cuda" else control)
    except RuntimeError as error:
        lost = _lost(str(error))
        if lost is None:
            raise
        raise PartnerLost(f"another process {lost}; the newest checkpoint is safe, continue with --resume") from error
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


def _lost(text: str) -> str | None:
    """Describe the failure of another process, if an error of gloo or of the store reports one."""
    if "imed out" in text:
        return "has not answered in time: it is stopped, stuck or gone"
    if "gloo" in text and "onnection" in text:
        return f"is gone ({text.partition('] ')[2].partition('. ')[0]})"  # with its address
    return None


def world_size() -> int:
    """Return the number of processes that torchrun started; 1 without it."""
    size = os.environ.get("WORLD_SIZE") or "1"
    if size != "1" and not dist.is_torchelastic_launched():
        raise ConfigError(
            f"WORLD_SIZE={size} in the environment, and not from torchrun: start several processes with torchrun, or "
            "one with: unset WORLD_SIZE"
        )
    return int(size)


def restarted_by_torchrun(run: str | None) -> bool:
    """Return whether torchrun restarts failed processes and an earlier attempt has begun the run in this folder.

    torchrun counts its attempts on each node by itself, so the count is not the number of this attempt.
    """
    most = os.environ["TORCHELASTIC_MAX_RESTARTS"]
    if run is None:
        raise ConfigError(f"--max-restarts={most} of torchrun, and no name of the run to continue: type run=DIR")
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":  # github.com/pytorch/pytorch/issues/135712
        raise ConfigError(
            f"--max-restarts={most}: torchrun would give restarted processes the addresses of those that are gone; "
            "type TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 before torchrun"
        )
    return os.path.exists(os.path.join(run, "config.json"))


def device_of_process(name: str) -> str:
    """Return the GPU of this process's local rank for `cuda` or `auto` under torchrun."""
    world_size()
    if name.startswith("cuda:"):
        raise ConfigError(f"device={name}: torchrun assigns a GPU to each process; type device=cuda")
    if name == "cuda" or (name == "auto" and torch.cuda.is_available()):
        return f"cuda:{os.environ['LOCAL_RANK']}"
    return name
