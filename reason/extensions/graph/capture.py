"""Capture and replay of optimizer steps.

A step of a small network is some thousand kernels of a few microseconds, and the host needs longer to queue them than
the GPU to run them. A CUDA graph queues them all by one call. It reads and writes the memory that it was captured
with, so everything that a step replaces (`Captured.moving`) is copied to where the next replay reads it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map_only

from reason.errors import ConfigError
from reason.rollout import Carry
from reason.training.form import Form

if TYPE_CHECKING:
    from reason.training.loop import Trainer

Replay = Callable[[], Tensor]
EAGER = 3  # steps of a form before it is captured: the optimizer makes its state, inductor compiles, cuBLAS begins


class CudaGraphs:
    """Kernels that a function queues, captured to be queued again by one call. All graphs share their memory."""

    def __init__(self, generators: list[torch.Generator]):
        """generators: those that the function draws from, in addition to the default one."""
        self.generators, self.pool = generators, torch.cuda.graph_pool_handle()

    def __call__(self, step: Replay) -> Replay:
        """Capture `step`, without running it."""
        graph = torch.cuda.CUDAGraph()
        for generator in self.generators:
            graph.register_generator_state(generator)
        with torch.cuda.graph(graph, pool=self.pool):
            result = step()

        def replay() -> Tensor:
            graph.replay()
            return result

        return replay


class Captured:
    """`Trainer.compute` by graphs: one for each form. Steps at which the balancer measures stay eager."""

    def __init__(self, trainer: Trainer, capture: Callable[[Replay], Replay] | None = None):
        """Raises ConfigError where a step of this trainer needs the host."""
        if lack := lacking(trainer):
            raise ConfigError(f"training.compile=graph: {lack}; type training.compile=inductor")
        self.trainer = trainer
        self.capture = capture or CudaGraphs([sampler.generator for sampler in trainer.samplers])
        self.seen: Counter[Form] = Counter()
        self.replays: dict[Form, tuple[Replay, list[Tensor]]] = {}
        # What a step replaces (carries, meters), where every graph reads and writes it. All else is written in place.
        self.carries: list[dict[str, Any]] = []
        self.sums: dict[str, Tensor] = {}

    def __call__(self, form: Form, numbers: Mapping[str, float | Tensor], groups: list[Tensor]) -> Tensor:
        """One optimizer step; see `Trainer.compute`."""
        self.seen[form] += 1
        if self.seen[form] <= EAGER or any(supervision.measured for supervision in form.supervisions):
            return self.trainer.compute(form, numbers, groups)
        self._settle()
        if form not in self.replays:
            self.replays[form] = self._captured(form, numbers, [each.clone() for each in groups])
        replay, read = self.replays[form]
        for place, drawn in zip(read, groups, strict=True):
            place.copy_(drawn)
        return replay()

    def _captured(
        self, form: Form, numbers: Mapping[str, float | Tensor], groups: list[Tensor]
    ) -> tuple[Replay, list[Tensor]]:
        def step() -> Tensor:
            norm = self.trainer.compute(form, numbers, groups)
            self._settle()
            return norm

        return self.capture(step), groups

    def _settle(self) -> None:
        """Bring what a step replaced to where the graphs read it."""
        trainer = self.trainer
        if not self.carries:
            self.carries = [tree_map_only(Tensor, torch.clone, vars(carry)) for carry in trainer.carries]
        for place, now in zip(tree_leaves(self.carries), tree_leaves(list(map(vars, trainer.carries))), strict=True):
            if isinstance(place, Tensor):  # not the shape of a batch
                place.copy_(now)
        for name, now in trainer.meters.sums.items():
            if name not in self.sums:
                self.sums[name] = now.clone()
            self.sums[name].copy_(now)
        trainer.carries = [Carry(**fields) for fields in self.carries]
        trainer.meters.sums = dict(self.sums)


def lacking(trainer: Trainer) -> str | None:
    """Why a trainer's steps cannot be captured; None: they can."""
    if trainer.optimizers.fused:
        return "the package adam-atan2 takes its learning rate from the host"
    if not trainer.numbers.queued:
        return f"{trainer.device} has no CUDA graphs"
    if trainer.scaling.enabled:
        return "in fp16 every step asks the device whether it overflowed"
    if any(part.inputs.device.type != trainer.device.type for part in trainer.data.parts):
        return "the set stays on disk, and every step reads its rows"
    return "several processes train" if trainer.world.size > 1 else None
