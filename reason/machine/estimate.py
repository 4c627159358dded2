"""What a training costs, counted on tensors without memory: the memory it needs, and the work of a step.

Beside them the memory that the machine has left.
"""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from reason.config.overrides import derive
from reason.config.schema import Config
from reason.losses import evaluate_terms
from reason.losses.balance import weighted_sum
from reason.models import build_model
from reason.models.base import Batch, Reasoner, Shape
from reason.nn.dtypes import Dtypes
from reason.rollout import Carry, first_carry, supervise
from reason.training.optim import matrices_of, unscaled_gradient

DEEPEST = 20_000  # times its states that a training holds, about at most: below that no estimate is worth its seconds
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
    """Bytes of the tensors created within the block: currently alive, and the peak.

    Storages are counted, so views cost nothing; a kernel's own temporaries are not counted.
    """

    def __init__(self) -> None:
        super().__init__()
        self.live = self.peak = 0
        self._seen: dict[int, weakref.ref] = {}

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor) and leaf.layout == torch.strided:
                self._count(leaf.untyped_storage())
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
        self.peak = max(self.peak, self.live)


class Rehearsal(NamedTuple):
    """What is left when two supervision steps of an optimizer step have run on fake tensors."""

    model: Reasoner
    carry: Carry


@contextlib.contextmanager
def fake_model(config: Config, shape: Shape, computed: Dtypes, device: str) -> Iterator[Reasoner]:
    """A config's model on fake tensors, which have a shape and no memory; so is all that is made within the block."""
    if device != "cpu":
        states, products = (torch.float16 if dtype == torch.bfloat16 else dtype for dtype in computed)
        computed = Dtypes(states or torch.float32, products)
    with torch.device("meta"):
        model = build_model(config.model, shape, *computed)
    with FakeTensorMode(allow_non_fake_inputs=True):
        yield model.to_empty(device="cpu")


@contextlib.contextmanager
def rehearsal(config: Config, shape: Shape, computed: Dtypes, device: str) -> Iterator[Callable[[int], Rehearsal]]:
    """A function that runs so many supervision steps on fake tensors.

    Each step runs forward and backward in eager mode, at the real batch size, with the largest possible T. For a GPU
    the activations stand in float16, whose attention is the fused kernel, for bfloat16 too: as many bytes.
    """
    rollout = config.rollout
    loops = rollout.loops.count if rollout.loops.distribution == "fixed" else rollout.loops.max
    with fake_model(config, shape, computed, device) as model:
        rows = partial(blank_batch, config.training.batch_size, shape)
        carry = first_carry(model, rows())

        def run(steps: int) -> Rehearsal:
            nonlocal carry
            for part in range(steps):
                carry, unroll = supervise(model, carry, rows, rollout, part, loops)
                terms = evaluate_terms(unroll, config.loss, config.loss.present)
                if part == 0 and config.balance.kind != "fixed":
                    for term in terms.values():
                        unscaled_gradient(term, model.balance_weights())
                loss = weighted_sum(terms, dict(config.loss.weights))
                del unroll, terms
                loss.backward()
                del loss
            return Rehearsal(model, carry)

        yield run


def products_of_trace(config: Config, shape: Shape) -> int:
    """S·D of a row's state, the products of an exact trace of its Jacobian; 1 where none is computed."""
    if not config.loss.traced or config.loss.trace.method != "exact":
        return 1
    with fake_model(config, shape, Dtypes(torch.float32), "cpu") as model:
        return first_carry(model, blank_batch(1, shape)).state[0].numel()


def with_probes(config: Config) -> tuple[Config, Config]:
    """The config with one and with two random probes for its trace; each product costs as much as a probe."""
    one, two = (derive(config, {"loss.trace.method": "hutchinson", "loss.trace.probes": probes}) for probes in (1, 2))
    return one, two


def estimate_memory(config: Config, shape: Shape, computed: Dtypes, device: str) -> Memory:
    """Estimate the memory of an optimizer step by its `rehearsal`.

    Weights, moments and averages are float32; torch.compile usually needs less. An exact trace is extrapolated from one
    and two random probes. Not counted: the allocator's rounding, CUDA's own context (0.3 to 0.6 GB), the puzzle set
    (two bytes a cell).
    """
    if (products := products_of_trace(config, shape)) > 1:
        one, two = (_rehearsed_memory(each, shape, computed, device) for each in with_probes(config))
        return replace(one, activations=one.activations + (products - 1) * (two.activations - one.activations))
    return _rehearsed_memory(config, shape, computed, device)


def _rehearsed_memory(config: Config, shape: Shape, computed: Dtypes, device: str) -> Memory:
    with rehearsal(config, shape, computed, device) as run:
        with LiveBytes() as bytes_of:
            model, carry = run(min(2, config.rollout.grad_steps))
        held = [*carry.batch[:3], *carry.state, carry.steps, carry.halted, *carry.loader[:3]]
        between = sum({t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in held}.values())
        trained = [p for name, p in model.named_parameters() if not name.startswith("puzzle_embedding")]
        numbers = sum(p.numel() for p in trained)
        matrices = sum(p.numel() for p in matrices_of(model)) if config.optimizer.kind == "muon" else 0
        gradients = sum(p.numel() * 4 for p in trained if p.grad is not None)
        weights = sum(t.numel() * t.element_size() for t in (*model.parameters(), *model.buffers()))
    average = 4 * numbers if config.ema.decay is not None else 0
    moments = 8 * numbers - 4 * matrices  # Muon has one
    return Memory(weights, gradients, moments, average, between, max(0, bytes_of.peak - gradients - between))


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


aten = torch.ops.aten


class Work(NamedTuple):
    """Of an optimizer step in eager mode, without the optimizer's own (a few operations a weight); of a read step."""

    flops: int  # 2 per multiply-add, of matrix products, convolutions and attention
    bytes: int  # that operations write
    kernels: int  # operations that write any

    def seconds(self, flops: float, bytes: float, launch: float) -> float:
        """At so many FLOP/s, bytes/s and seconds a launch, one after the other."""
        return self.flops / flops + self.bytes / bytes + self.kernels * launch


UNWRITTEN = {aten._unsafe_view.default, aten.empty.memory_format, aten.empty_like.default, aten.new_empty.default}


def _attention(q: torch.Size, k: torch.Size, v: torch.Size, *_: Any, **__: Any) -> int:
    """Of shapes (B, heads, S, D/heads): scores, and values by them."""
    return 2 * q[:-1].numel() * k[-2] * (q[-1] + v[-1])


def _attention_backward(_: torch.Size, q: torch.Size, k: torch.Size, v: torch.Size, *__: Any, **___: Any) -> int:
    return 2 * _attention(q, k, v)


FUSED = {  # attention as a CPU computes it, which torch's counter does not know
    aten._scaled_dot_product_flash_attention_for_cpu: _attention,
    aten._scaled_dot_product_flash_attention_for_cpu_backward: _attention_backward,
}


class _Written(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.bytes = self.kernels = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        if not function.is_view and function not in UNWRITTEN:
            written = [leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]
            self.bytes += sum(tensor.numel() * tensor.element_size() for tensor in written)
            self.kernels += bool(written)
        return result


def work_of(config: Config, shape: Shape, computed: Dtypes, device: str) -> Work:
    """The work of an optimizer step, at the typical T; what gradient checkpointing computes again is not counted.

    An exact trace is extrapolated from one and two random probes. Of AlgGradNorm's gradients, a backward pass a term,
    a step has the share that falls on it.
    """
    if config.balance.kind != "fixed":
        plain = derive(config, {"balance.kind": "fixed", "balance.targets": {}})
        least, most = (_extrapolated_work(each, shape, computed, device) for each in (plain, config))
        between = config.balance.every * config.rollout.grad_steps  # steps from one measurement to the next
        return Work(*(a + (b - a) // between for a, b in zip(least, most, strict=True)))
    return _extrapolated_work(config, shape, computed, device)


def _extrapolated_work(config: Config, shape: Shape, computed: Dtypes, device: str) -> Work:
    if (products := products_of_trace(config, shape)) > 1:
        one, two = (_rehearsed_work(each, shape, computed, device) for each in with_probes(config))
        return Work(*(a + (products - 1) * (b - a) for a, b in zip(one, two, strict=True)))
    return _rehearsed_work(config, shape, computed, device)


def _rehearsed_work(config: Config, shape: Shape, computed: Dtypes, device: str) -> Work:
    if config.model.recomputation is not None:
        config = derive(config, {"model.gradient_checkpointing": False})
    loops = {"rollout.loops.distribution": "fixed", "rollout.loops.count": config.rollout.loops.typical}
    config = derive(config, loops)
    steps = config.rollout.grad_steps
    with rehearsal(config, shape, computed, device) as run:
        one = _counted(lambda: run(1))
    return Work(*(steps * count for count in one))


def work_of_reading(config: Config, shape: Shape, computed: Dtypes, device: str, rows: int) -> Work:
    """The work of an evaluation's step: a supervision step of so many rows without gradient, and its readout."""
    with fake_model(config, shape, computed, device) as model, torch.no_grad():
        model.eval()
        x = model.encode(blank_batch(rows, shape))
        state = model.initial_state(x)
        return _counted(lambda: model.readout(model.step(state, x)))


def _counted(run: Callable[[], object]) -> Work:
    with FlopCounterMode(display=False, custom_mapping=FUSED) as flops, _Written() as written:
        run()
    return Work(flops.get_total_flops(), written.bytes, written.kernels)
