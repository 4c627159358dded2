"""The training loop: a config, a model and puzzle sets become a trained run.

    once            `Trainer`: optimizer, average, balancer, and for each set a stream of puzzles and a carry of rows
    every step      `optimizer_step`: N_grad supervision steps, the mean of their gradients, one update
    every few steps `train`: a log line, a validation, a checkpoint, until the last step, a limit or a signal
Before it: `reason.runs.build`, which checks sets and resolves `auto`. A checkpoint's content: `reason.training.state`.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from datasets_gen.progress import Progress
from reason.config.schema import Config
from reason.data import Sampler, TrainingSets
from reason.losses import evaluate_terms, weighted_sum
from reason.losses.balance import AlgGradNorm
from reason.models.base import Reasoner
from reason.plugins import extension
from reason.rollout import first_carry, supervise
from reason.training import state
from reason.training.accelerate import accelerate, compile_networks
from reason.training.ema import Ema
from reason.training.form import Form, Numbers, form_of, on_device
from reason.training.generators import draw_apart, seeds
from reason.training.interrupt import Outcome, StopRequest
from reason.training.log import Meters, log_line, open_log
from reason.training.monitor import Reading, validate
from reason.training.optim import Optimizers, unscaled_gradient
from reason.training.precision import LossScaling, dtypes
from reason.training.world import World

if TYPE_CHECKING:
    from reason.evaluation.monitor import SplitMonitor


class Trainer:
    """Everything that changes while a run trains."""

    def __init__(
        self,
        config: Config,
        run: Path,
        model: Reasoner,
        data: TrainingSets,
        monitor: SplitMonitor | None = None,
        world: World | None = None,
        reasons: list[str] | None = None,
    ):
        """`reasons`: how each `auto` was resolved. All processes draw the same puzzles, and each takes its rows."""
        self.config, self.run, self.data, self.monitor, self.reasons = config, run, data, monitor, reasons or []
        self.world, self.device, self.model = world or World(), data.device, model.to(data.device)
        draw_apart(config.seed, self.world)
        training, rollout = config.training, config.rollout
        accelerate(model, config.model, dtypes(training.precision, self.device), self.device)
        if training.compile != "none":
            compile_networks(model)

        # One stream of puzzles and one carry for each set: supervision step number i is on set i mod n. All rows start
        # halted, so the first step replaces the blank puzzles.
        self.samplers = [
            Sampler(part, training.batch_size, seeds(config.seed)[1] + number, config.data.augment, config.data.hints)
            for number, part in enumerate(data.parts)
        ]
        blank = torch.zeros(training.batch_size // self.world.size, dtype=torch.int64, device=self.device)
        self.carries = [first_carry(model, part.take(blank), rollout) for part in data.parts]

        self.scaling = LossScaling(self.device, model.products or model.dtype)
        self.optimizers = Optimizers(model, config.optimizer, self.scaling)
        self.numbers = Numbers(self.device, on_device(self.device) and not self.optimizers.fused)
        self.run_step = extension("graph", "capture").Captured(self) if training.compile == "graph" else self.compute
        self.ema = None if config.ema.decay is None else Ema(model, config.ema)
        balanced = config.balance.kind == "alg-grad-norm"  # else λ = loss.weights
        self.balancer = AlgGradNorm(config, self.device) if balanced else None

        self.meters = Meters(self.device, self.world)
        self.step = 0  # optimizer steps taken
        self.index = 0  # supervision steps taken
        self.seconds = 0.0
        self.best: Reading | None = None
        self.log_position = 0  # bytes of metrics.jsonl at the newest checkpoint
        self.saved: int | None = None  # the step of the newest checkpoint

    def optimizer_step(self) -> Tensor:
        """N_grad supervision steps, the mean of their gradients, one update; returns the gradient norm."""
        form, every = form_of(self), self.config.rollout.carry == "persistent"  # else where a loader batch begins
        groups = [self.samplers[s.set_index].groups() for s in form.supervisions if every or s.begins]
        norm = self.run_step(form, self.numbers.of(self), groups)
        self.index, self.step = self.index + len(form.supervisions), self.step + 1
        return norm

    def compute(self, form: Form, numbers: Mapping[str, float | Tensor], groups: list[Tensor]) -> Tensor:
        """What the device does in an optimizer step; groups: those (B,) of each batch that is drawn."""
        model, balancer, rollout, drawn = self.model, self.balancer, self.config.rollout, iter(groups)
        if form.frozen:
            model.freeze_embedding()
        weights = balancer.weights(form.terms) if balancer else {name: numbers[name] for name in form.terms}
        for set_index, begins, loops, measured in form.supervisions:
            # The balancer measures in eager mode. With gradient checkpointing the backward pass repeats forward calls,
            # and these must save the same tensors as the first calls did: so the whole measured step is eager.
            with torch.compiler.set_stance("force_eager") if measured else contextlib.nullcontext():
                draw = lambda: self.world.mine(self.samplers[set_index].batch(next(drawn)))  # noqa: B023, E731
                carry, unroll = supervise(model, self.carries[set_index], draw, rollout, loops, begins)
                self.carries[set_index] = carry
                terms = evaluate_terms(unroll, self.config.loss, weights)
                if measured and balancer is not None:
                    at = model.balance_weights(), self.scaling.factor(self.device)
                    balancer.update(self.step, terms, lambda loss: unscaled_gradient(loss, *at), self.world.mean)  # noqa: B023
                self.scaling.scale(weighted_sum(terms, weights) / rollout.grad_steps).backward()
            self.meters.add(unroll, carry, terms, weights)
        self.world.average_gradients(model.parameters())
        norm = self.optimizers.step(numbers["optimizer.lr"])
        if not self.scaling.enabled:  # loss scaling skips a step whose gradient is infinite: no error
            self.meters.spoiled |= ~norm.isfinite()
        if self.ema is not None:
            self.ema.update(numbers["ema.decay"])
        return norm

    def train(self, max_steps: int | None = None, max_minutes: float | None = None) -> Outcome:
        """Train to the last step, to step `max_steps`, for `max_minutes` or to a signal; always save the last state."""
        c, total = self.config.training, self.config.training.steps
        goal = total if max_steps is None else min(total, max_steps)
        begun, before = time.perf_counter(), self.seconds
        bar = Progress(total=total, initial=self.step, unit="step", desc="training", disable=not self.world.first)
        with bar, contextlib.closing(open_log(self)) as log, StopRequest(patient=self.world.size > 1) as stop:
            if self.saved is None:
                state.save(self, log)  # so that metrics without a checkpoint mean a lost checkpoint
            while self.step < goal and not self.world.any(stop.name is not None):
                norm = self.optimizer_step()
                self.seconds = before + time.perf_counter() - begun
                bar.update()
                if self.step % c.log_every == 0 or self.step == total:
                    state.refuse_broken(self)
                    bar.set_postfix_str(log_line(self, norm, log))
                best = validate(self, log)
                if best or (self.step % c.checkpoint_every == 0 and self.step < goal):
                    state.save(self, log)
                if max_minutes is not None and self.seconds - before >= 60 * max_minutes:
                    stop.name = stop.name or f"--max-minutes {max_minutes:g}"
            if self.saved != self.step:
                state.save(self, log)
        self.seconds = before + time.perf_counter() - begun  # with the last validation and checkpoint
        limit = f"--max-steps {max_steps}" if self.step >= goal < total else None
        return Outcome(self.step, None if self.step >= total else stop.name or limit or "another process")
