"""The work of an optimizer step, counted from shapes: FLOPs of products, bytes written, kernels launched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from reason.config.overrides import derive
from reason.config.schema import Config
from reason.machine.memory import blank_batch, fake_model, products_of_trace, rehearsal, with_probes
from reason.models.base import Shape
from reason.nn.dtypes import Dtypes

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
