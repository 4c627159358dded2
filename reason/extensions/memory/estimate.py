"""Estimates the bytes of a training, on tensors without memory, and its hours, from one measured step."""

from __future__ import annotations

import contextlib
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from reason.config.schema import Config
from reason.losses import evaluate_terms, weighted_sum
from reason.models import build_model
from reason.models.base import Batch, Reasoner, Shape
from reason.models.mapped import with_maps
from reason.nn.dtypes import Dtypes
from reason.rollout import Carry, first_carry, supervise
from reason.training.device import pick_device
from reason.training.optim import matrices_of, unscaled_gradient
from reason.training.precision import dtypes


@dataclass(frozen=True)
class Memory:
    """Estimated bytes of a training, by content."""

    weights: int  # parameters and buffers
    gradients: int
    moments: int  # the optimizer's two
    average: int  # the EMA
    carry: int  # puzzles and states between two supervision steps
    activations: int  # the rest at the peak: saved for backward, logits, temporaries

    @property
    def total(self) -> int:
        """Return the sum of all parts."""
        return sum(vars(self).values())


class LiveBytes(TorchDispatchMode):
    """Counts bytes of the tensors that are made within the block: alive now, and at the peak.

    Storages are counted, so views cost nothing; temporaries inside kernels are not counted.
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


@contextlib.contextmanager
def fake_model(config: Config, shape: Shape, computed: Dtypes, device: str) -> Iterator[Reasoner]:
    """Yield a config's model on fake tensors, which have no memory; tensors made in the block are also fake.

    For a GPU, float16 also represents bfloat16: it has as many bytes, and its attention is the fused kernel.
    """
    if device != "cpu":
        states, products = (torch.float16 if dtype == torch.bfloat16 else dtype for dtype in computed)
        computed = Dtypes(states or torch.float32, products)
    with torch.device("meta"):
        model = build_model(config.model, shape, *computed)
    with FakeTensorMode(allow_non_fake_inputs=True):
        yield model.to_empty(device="cpu")


def estimate_memory(config: Config, shape: Shape, computed: Dtypes, device: str) -> Memory:
    """Estimate the memory of an optimizer step by running its supervision steps on fake tensors.

    Weights, moments and averages are float32; torch.compile usually needs less. Not counted: the allocator's rounding,
    the context of CUDA (0.3 to 0.6 GB), the puzzle set (two bytes a cell). One or two supervision steps run forward and
    backward in eager mode, at the real batch size, with the largest possible T.
    """
    rollout = config.rollout
    rows = partial(blank_batch, config.training.batch_size, shape)
    with fake_model(config, shape, computed, device) as model:
        carry = first_carry(model, rows())
        with LiveBytes() as seen:
            for part in range(min(2, rollout.grad_steps)):
                carry = supervised(model, carry, rows, config, part, rollout.loops.most)
        held = [*carry.batch[:3], *carry.state, carry.steps, carry.halted, *carry.loader[:3]]
        between = sum({t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in held}.values())
        trained = [p for name, p in model.named_parameters() if not name.startswith("puzzle_embedding")]
        numbers = sum(p.numel() for p in trained)
        matrices = sum(p.numel() for p in matrices_of(model)) if config.optimizer.kind == "muon" else 0
        gradients = sum(p.numel() * 4 for p in trained if p.grad is not None)
        weights = sum(t.numel() * t.element_size() for t in (*model.parameters(), *model.buffers()))
    average = 4 * numbers if config.ema.decay is not None else 0
    moments = 8 * numbers - 4 * matrices  # Muon has one
    return Memory(weights, gradients, moments, average, between, max(0, seen.peak - gradients - between))


def supervised(
    model: Reasoner, carry: Carry, rows: Callable[[], Batch], config: Config, part: int, loops: int
) -> Carry:
    """Run a supervision step forward and backward; the first of an optimizer step includes the balancer."""
    carry, step = supervise(model, carry, rows, config.rollout, loops, part == 0)
    terms = evaluate_terms(step, config.loss, config.loss.present)
    if part == 0 and config.balance.kind != "fixed":
        for term in terms.values():
            unscaled_gradient(term, with_maps(model).balance_weights())
    loss = weighted_sum(terms, dict(config.loss.weights))
    del step, terms
    loss.backward()
    return carry


def hours(config: Config, shape: Shape) -> float:
    """Hours of a training on this machine by one eager supervision step of a few rows; on a GPU of up to 64."""
    device, batch = pick_device(config.device), config.training.batch_size
    model = build_model(config.model, shape, *dtypes(config.training.precision, device)).to(device)

    def seconds(rows: int) -> float:
        blank = blank_batch(rows, shape).each(lambda tensor: tensor.to(device))
        carry, begun = first_carry(model, blank), time.perf_counter()
        supervised(model, carry, lambda: blank, config, 1, config.rollout.loops.typical)
        if device.type != "cpu":
            torch.accelerator.synchronize(device)
        return time.perf_counter() - begun

    seconds(1)  # warms up
    rows = min(batch, 64 if device.type == "cuda" else max(1, int(1 / seconds(1))))
    return seconds(rows) / rows * config.training.steps * config.rollout.grad_steps * batch / 3600


def blank_batch(rows: int, shape: Shape) -> Batch:
    """Make a batch of puzzles whose tokens are all 0."""
    tokens = torch.zeros(rows, shape.seq_len, dtype=torch.int64)
    return Batch(tokens, tokens.clone(), torch.zeros(rows, dtype=torch.int64))
