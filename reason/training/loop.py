"""The training loop: a config, a model and puzzle sets become a trained run.

    once             `reason.runs.build`: checks, choices, and the parts that the fields of `Trainer` name
    every step       `optimizer_step`: N_grad times `supervision_step`, then one update with the mean of the gradients
    every few steps  `train`: a log line, a validation, a checkpoint, until the last step, a limit or a signal

`reason.training.state` defines a checkpoint's content.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from datasets_gen.progress import Progress
from reason.config.schema import Config
from reason.data.puzzles import Sampler, TrainingSets
from reason.losses import evaluate_terms, weighted_sum
from reason.losses.balance import AlgGradNorm, is_measured
from reason.models.base import Batch, Reasoner
from reason.models.mapped import with_maps
from reason.rollout import Carry, supervise
from reason.training import state
from reason.training.ema import Ema
from reason.training.interrupt import Outcome, StopRequest
from reason.training.log import Meters, log_line, open_log
from reason.training.monitor import Validation, validate
from reason.training.optim import Optimizers, unscaled_gradient
from reason.training.precision import LossScaling
from reason.training.world import World

if TYPE_CHECKING:
    from reason.evaluation.monitor import SplitMonitor


class StepPlan(NamedTuple):
    """The decisions about a supervision step that the host makes before it."""

    set_index: int  # supervision step i trains on set i mod n
    new_loader_batch: bool  # true at the first of the N_accum steps of a loader batch
    loops: int  # T
    measure_gradients: bool  # by the balancer


class StepScalars(NamedTuple):
    """The scheduled numbers of an optimizer step. A captured step keeps them on the device."""

    lr_factor: float | Tensor
    ema_rate: float | Tensor
    loss_weights: Mapping[str, float | Tensor]  # of each term that is evaluated now; a balancer has its own λ


@dataclass(eq=False)
class Trainer:
    """The state of a training: its parts, and everything that changes while a run trains."""

    config: Config  # with every `auto` resolved
    run: Path
    data: TrainingSets
    device: torch.device
    world: World
    model: Reasoner
    monitor: SplitMonitor | None  # validates during training
    reasons: list[str]  # how each `auto` was resolved
    samplers: list[Sampler]  # one stream of puzzles for each set; all processes draw the same, and each takes its rows
    carries: list[Carry]  # one for each set
    scaling: LossScaling
    optimizers: Optimizers
    ema: Ema | None
    balancer: AlgGradNorm | None
    meters: Meters
    step: int = 0  # optimizer steps taken
    index: int = 0  # supervision steps taken
    seconds: float = 0.0
    best: Validation | None = None
    log_position: int = 0  # bytes of metrics.jsonl at the newest checkpoint
    saved: int | None = None  # the step of the newest checkpoint
    run_step: Callable[[], Tensor] = field(init=False)  # `optimizer_step`; with training.compile=graph a captured one

    def optimizer_step(self, scalars: StepScalars | None = None) -> Tensor:
        """Take N_grad supervision steps, update once with the mean of their gradients, and return the gradient norm.

        `scalars` are those of this step (`Trainer.scalars`) unless they are given.
        """
        scalars = scalars or self.scalars()
        if self.config.optimizer.freezes(self.step, self.config.training.steps):
            model: Any = self.model
            model.freeze_embedding()  # the config checks that there is this method
        weights = self.balancer.weights(scalars.loss_weights) if self.balancer else scalars.loss_weights
        for plan in self.step_plans():
            # The balancer measures in eager mode. With gradient checkpointing the backward pass repeats forward calls,
            # and these must save the same tensors as the first calls did: so the whole measured step is eager.
            with torch.compiler.set_stance("force_eager") if plan.measure_gradients else contextlib.nullcontext():
                self.supervision_step(plan, weights)
        self.world.average_gradients(self.model.parameters())
        norm = self.optimizers.step(scalars.lr_factor)
        if not self.scaling.enabled:  # loss scaling skips a step whose gradient is infinite
            self.meters.spoiled |= ~norm.isfinite()
        if self.ema is not None:
            self.ema.update(scalars.ema_rate)
        self.index += self.config.rollout.grad_steps
        self.step += 1
        return norm

    def scalars(self) -> StepScalars:
        """Return the scalars of the next optimizer step."""
        config = self.config
        steps = config.training.steps
        return StepScalars(
            lr_factor=config.optimizer.schedule.factor(self.step, steps),
            ema_rate=config.ema.rate(self.step + 1),
            loss_weights=config.loss.weights_at(self.step, steps),
        )

    def step_plans(self) -> Iterator[StepPlan]:
        """Yield the plans of the supervision steps of the next optimizer step."""
        rollout = self.config.rollout
        sets = len(self.carries)
        period = sets * rollout.supervision_steps
        for index in range(self.index, self.index + rollout.grad_steps):
            index_in_set, set_index = divmod(index, sets)
            yield StepPlan(
                set_index,
                new_loader_batch=index_in_set % rollout.accum_steps == 0,
                loops=rollout.loops.draw(self.config.seed, index, self.step),  # T, fixed or random
                measure_gradients=self.balancer is not None and is_measured(index, self.balancer.window, period),
            )

    def supervision_step(self, plan: StepPlan, weights: Mapping[str, float | Tensor]) -> None:
        """Take a supervision step of a set's rows, and add the gradient of its loss, divided by N_grad."""
        carry = self.carries[plan.set_index]
        draw = partial(self.draw, plan.set_index)
        carry, step = supervise(self.model, carry, draw, self.config.rollout, plan.loops, plan.new_loader_batch)
        terms = evaluate_terms(step, self.config.loss, weights.keys())
        if plan.measure_gradients and self.balancer is not None:
            scale = self.scaling.factor(self.device)
            gradient = partial(unscaled_gradient, weights=with_maps(self.model).balance_weights(), scale=scale)
            self.balancer.update(self.step, terms, gradient, self.world.mean)
        loss = weighted_sum(terms, weights) / self.config.rollout.grad_steps
        self.scaling.scale(loss).backward()
        self.carries[plan.set_index] = carry
        self.meters.add(step, carry, terms, weights)

    def draw(self, set_index: int) -> Batch:
        """Return this process's rows of the next batch of a set."""
        sampler = self.samplers[set_index]
        return self.world.mine(sampler.batch(sampler.groups()))

    def train(self, max_steps: int | None = None, max_minutes: float | None = None) -> Outcome:
        """Train to the last step, to step `max_steps`, for `max_minutes` or to a signal; always save the last state."""
        config = self.config.training
        total = config.steps
        goal = total if max_steps is None else min(total, max_steps)
        started = time.perf_counter()
        earlier = self.seconds  # spent before this call
        bar = Progress(total=total, initial=self.step, unit="step", desc="training", disable=not self.world.first)
        with bar, contextlib.closing(open_log(self)) as log, StopRequest(patient=self.world.size > 1) as stop:
            if self.saved is None:
                state.save(self, log)  # metrics without a checkpoint then mean a lost checkpoint
            while self.step < goal and not self.world.any(stop.name is not None):
                norm = self.run_step()
                self.seconds = earlier + time.perf_counter() - started
                bar.update()
                if self.step % config.log_every == 0 or self.step == total:
                    state.refuse_broken(self)
                    bar.set_postfix_str(log_line(self, norm, log))
                best = validate(self, log)
                if best or (self.step % config.checkpoint_every == 0 and self.step < goal):
                    state.save(self, log)
                if max_minutes is not None and self.seconds - earlier >= 60 * max_minutes:
                    stop.name = stop.name or f"--max-minutes {max_minutes:g}"
            if self.saved != self.step:
                state.save(self, log)
        self.seconds = earlier + time.perf_counter() - started  # with the last validation and checkpoint
        if self.step >= total:
            return Outcome(self.step, None)
        limit = f"--max-steps {max_steps}" if self.step >= goal else None
        return Outcome(self.step, stop.name or limit or "another process")
