"""What a training costs, counted on tensors without memory: the bytes that it holds, and those that a step makes.

Beside them the memory that the machine has left.
"""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from reason.config.schema import Config
from reason.losses import evaluate_terms, weighted_sum
from reason.models import build_model
from reason.models.base import Batch, Reasoner, Shape
from reason.nn.dtypes import Dtypes
from reason.rollout import first_carry, supervise
from reason.training.optim import matrices_of, unscaled_gradient

DEEPEST = 20_000  # times its states that a training holds, about at most
INFO = "/proc/meminfo"
CONTAINERS = [  # (limit, used, figures with the cache of files that can be dropped) of cgroup v2 and v1
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory.stat", "inactive_file"),
    (
        "/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        "/sys/fs/cgroup/memory/memory.stat", "total_inactive_file",
    ),
]  # fmt: skip


@dataclass(frozen=True)
class Memory:
    """Bytes by what they hold."""

    weights: int  # parameters and buffers
    gradients: int
    moments: int  # the optimizer's two
    average: int  # the EMA
    carry: int  # puzzles and states between two supervision steps
    activations: int  # the rest at the peak: saved for backward, logits, temporaries

    @property
    def total(self) -> int:
        """The sum."""
        return sum(vars(self).values())


class LiveBytes(TorchDispatchMode):
    """Bytes of the tensors that are made within the block: alive, at their peak, in all; and how many calls made any.

    Storages are counted, so views cost nothing; a kernel's own temporaries are not counted.
    """

    def __init__(self) -> None:
        super().__init__()
        self.live = self.peak = self.made = self.calls = 0
        self._seen: dict[int, weakref.ref] = {}

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result, before = function(*args, **(kwargs or {})), self.made
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor) and leaf.layout == torch.strided:
                self._count(leaf.untyped_storage())
        self.calls += self.made > before
        return result

    def _count(self, storage: torch.UntypedStorage) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key in self._seen:
            return

        def freed(_: Any) -> None:
            self.live -= size
            self._seen.pop(key, None)

        self._seen[key] = weakref.ref(storage, freed)
        self.live += size
        self.made += size
        self.peak = max(self.peak, self.live)


@contextlib.contextmanager
def fake_model(config: Config, shape: Shape, computed: Dtypes, device: str) -> Iterator[Reasoner]:
    """A config's model on fake tensors, which have a shape and no memory; so is all that is made within the block.

    For a GPU it stands in float16, whose attention is the fused kernel, for bfloat16 too: as many bytes.
    """
    if device != "cpu":
        states, products = (torch.float16 if dtype == torch.bfloat16 else dtype for dtype in computed)
        computed = Dtypes(states or torch.float32, products)
    with torch.device("meta"):
        model = build_model(config.model, shape, *computed)
    with FakeTensorMode(allow_non_fake_inputs=True):
        yield model.to_empty(device="cpu")


class Work(NamedTuple):
    """Of a step in eager mode, without the optimizer's own (a few operations a weight)."""

    bytes: int  # of the tensors that it makes
    calls: int  # that make any


def estimate_memory(config: Config, shape: Shape, computed: Dtypes, device: str) -> Memory:
    """Estimate the memory of an optimizer step by running its supervision steps on fake tensors.

    Weights, moments and averages are float32; torch.compile usually needs less. Not counted: the allocator's rounding,
    CUDA's own context (0.3 to 0.6 GB), the puzzle set (two bytes a cell).
    """
    return _rehearsed(config, shape, computed, device)[0]


def work_of(config: Config, shape: Shape, computed: Dtypes, device: str) -> Work:
    """The work of an optimizer step at the typical T."""
    _, seen, loops = _rehearsed(config, shape, computed, device)
    share = config.rollout.loops.typical / loops * max(1.0, config.rollout.grad_steps / 2)
    return Work(round(share * seen.made), round(share * seen.calls))


def _rehearsed(config: Config, shape: Shape, computed: Dtypes, device: str) -> tuple[Memory, LiveBytes, int]:
    """One or two supervision steps of an optimizer step: what they hold, what they make, the loops T of each.

    Each step runs forward and backward in eager mode, at the real batch size, with the largest possible T.
    """
    rollout = config.rollout
    loops = rollout.loops.count if rollout.loops.distribution == "fixed" else rollout.loops.max
    rows = partial(blank_batch, config.training.batch_size, shape)
    with fake_model(config, shape, computed, device) as model:
        carry = first_carry(model, rows())
        with LiveBytes() as seen:
            for part in range(min(2, rollout.grad_steps)):
                carry, unroll = supervise(model, carry, rows, rollout, part, loops)
                terms = evaluate_terms(unroll, config.loss, config.loss.present)
                if part == 0 and config.balance.kind != "fixed":
                    for term in terms.values():
                        unscaled_gradient(term, model.balance_weights())
                loss = weighted_sum(terms, dict(config.loss.weights))
                del unroll, terms
                loss.backward()
                del loss
        held = [*carry.batch[:3], *carry.state, carry.steps, carry.halted, *carry.loader[:3]]
        between = sum({t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in held}.values())
        trained = [p for name, p in model.named_parameters() if not name.startswith("puzzle_embedding")]
        numbers = sum(p.numel() for p in trained)
        matrices = sum(p.numel() for p in matrices_of(model)) if config.optimizer.kind == "muon" else 0
        gradients = sum(p.numel() * 4 for p in trained if p.grad is not None)
        weights = sum(t.numel() * t.element_size() for t in (*model.parameters(), *model.buffers()))
    average = 4 * numbers if config.ema.decay is not None else 0
    moments = 8 * numbers - 4 * matrices  # Muon has one
    memory = Memory(weights, gradients, moments, average, between, max(0, seen.peak - gradients - between))
    return memory, seen, loops


def work_of_reading(config: Config, shape: Shape, computed: Dtypes, device: str, rows: int) -> Work:
    """The work of an evaluation's step: a supervision step of so many rows without gradient, and its readout."""
    with fake_model(config, shape, computed, device) as model, torch.no_grad():
        context = model.eval().encode(blank_batch(rows, shape))
        state = model.initial_state(context)
        with LiveBytes() as seen:
            model.readout(model.step(state, context), context)
    return Work(seen.made, seen.calls)


def worth_estimating(config: Config, shape: Shape, available: int) -> bool:
    """Whether a training could hold half of what is available: else an estimate is not worth its second."""
    with fake_model(config, shape, Dtypes(torch.float32), "cpu") as model, torch.no_grad():
        state = model.initial_state(model.encode(blank_batch(config.training.batch_size, shape)))
    return DEEPEST * sum(z.numel() * z.element_size() for z in state) > available / 2


def blank_batch(rows: int, shape: Shape) -> Batch:
    """Puzzles of zeros."""
    tokens = torch.zeros(rows, shape.seq_len, dtype=torch.int64)
    return Batch(tokens, tokens.clone(), torch.zeros(rows, dtype=torch.int64))


def available_memory(device: torch.device) -> int | None:
    """Bytes that may still be taken on a device; None where the system does not tell.

    On a CPU: what the kernel calls available, or what is left of the container's limit.
    """
    if device.type == "cuda":
        kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)  # by torch, to be used again
        return torch.cuda.mem_get_info(device)[0] + kept
    if device.type == "mps":
        return torch.mps.recommended_max_memory()
    left = [_number(INFO, "MemAvailable")]
    for limit, used, figures, cache in CONTAINERS:
        most, taken = _number(limit), _number(used)
        left.append(None if most is None or taken is None else most - taken + (_number(figures, f"{cache} ") or 0))
    known = [size for size in left if size is not None]
    if known:
        return max(0, min(known))
    pages = os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else -1
    return pages * os.sysconf("SC_PAGE_SIZE") if pages > 0 else None


def _number(file: str, line: str = "") -> int | None:
    """The bytes that a file of the kernel states, on the line that begins so."""
    try:
        text = next((text for text in Path(file).read_text(encoding="utf-8").splitlines() if text.startswith(line)), "")
    except OSError:
        return None
    words = text.removeprefix(line).removeprefix(":").split()
    return int(words[0]) * (1024 if words[1:] == ["kB"] else 1) if words and words[0].isdecimal() else None


def readable_size(size: float) -> str:
    """1_500_000 -> '1.5 MB'."""
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.2f} GB"
