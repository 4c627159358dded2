"""What the host decides before an optimizer step: its form, and the numbers that change from step to step.

Two steps of one form queue the same kernels on the device. They differ in their puzzles and in their `Numbers`, and
both are tensors there, so that a step can be captured once and replayed (`reason.extensions.graph`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

if TYPE_CHECKING:
    from reason.training.loop import Trainer

QUEUED = {"cuda"}  # devices whose steps can be captured


class Supervision(NamedTuple):
    """One supervision step."""

    set_index: int  # the number of its set
    begins: bool  # is it the first on a loader batch?
    loops: int  # T
    measured: bool  # does the balancer measure gradients at it?


class Form(NamedTuple):
    """An optimizer step."""

    frozen: bool  # is x̂ frozen?
    terms: tuple[str, ...]  # the loss terms that are evaluated
    supervisions: tuple[Supervision, ...]  # N_grad


def form_of(trainer: Trainer) -> Form:
    """The form of a trainer's next optimizer step."""
    config, step, sets = trainer.config, trainer.step, len(trainer.carries)
    rollout, frozen_after = config.rollout, config.optimizer.freeze_embedding_after
    supervisions = []
    for number in range(trainer.index, trainer.index + rollout.grad_steps):
        index, set_index = divmod(number, sets)
        loops = rollout.loops.draw(config.seed, number, step)
        measured = trainer.balancer is not None and trainer.balancer.measures(number, sets)
        supervisions.append(Supervision(set_index, index % rollout.accum_steps == 0, loops, measured))
    frozen = frozen_after is not None and step >= frozen_after * config.training.steps
    return Form(frozen, tuple(config.loss.weights_at(step, config.training.steps)), tuple(supervisions))


def on_device(device: torch.device) -> bool:
    """Whether the numbers of a step, and the optimizer's step counts, are tensors of the device."""
    return device.type in QUEUED


class Numbers:
    """Per-step scalars. On a GPU they are entries of one tensor, so that a captured graph can reuse them."""

    def __init__(self, device: torch.device, queued: bool):
        self.device, self.queued = device, queued
        self.entries: Tensor | None = None  # (n,) float32

    def of(self, trainer: Trainer) -> Mapping[str, float | Tensor]:
        """The scalars of the next step: the factor of the learning rates, the share of the EMA, fixed λ by term."""
        config, step = trainer.config, trainer.step
        values = {"optimizer.lr": config.optimizer.schedule.factor(step, config.training.steps)}
        if trainer.ema is not None:
            values["ema.decay"] = trainer.ema.rate(step + 1)
        if trainer.balancer is None:
            weights = config.loss.weights_at(step, config.training.steps)
            values |= {name: weights.get(name, 0.0) for name in config.loss.present}
        if not self.queued:
            return values
        pinned = torch.tensor([*values.values()], pin_memory=self.device.type == "cuda")  # else the copy would wait
        if self.entries is None:
            self.entries = torch.empty(len(values), device=self.device)
        self.entries.copy_(pinned, non_blocking=True)
        return dict(zip(values, self.entries.unbind(), strict=True))
