"""The training page: how a config, a model and puzzle sets become a trained run, from top to bottom.

    once          `Trainer`: optimizer, average, balancer, and for each set a stream of puzzles and a carry of rows
    every step    `optimizer_step`: N_grad supervision steps, the mean of their gradients, one update
    now and then  `train`: a log line, a validation, a checkpoint, until the last step, a limit or a signal

Before it `reason.runs.build` checks the sets and resolves what the config leaves open (`auto`); what a checkpoint holds
is in `reason.training.state`.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from datasets_gen.progress import Progress
from reason.config.schema import Config
from reason.losses import evaluate_terms, weighted_sum
from reason.losses.balance import AlgGradNorm
from reason.models.base import Batch, Reasoner
from reason.rollout import Carry, first_carry, supervise
from reason.settings.schedules import Horizon
from reason.training import state
from reason.training.accelerate import accelerate
from reason.training.compiling import compile_model
from reason.training.ema import Ema
from reason.training.interrupt import StopRequest
from reason.training.log import Meters, MetricsLog, log_line, tracker_of
from reason.training.monitor import Monitor, Reading
from reason.training.optim import Optimizers, unscaled_gradient
from reason.training.precision import LossScaling, dtypes
from reason.training.sets import Samplers, TrainingSets
from reason.training.world import World


@dataclass(frozen=True)
class Outcome:
    """The last optimizer step, and what stopped training (None: it is finished)."""

    step: int
    stopped_by: str | None


class Trainer:
    """Everything that changes while a run trains."""

    def __init__(
        self,
        config: Config,
        run: Path,
        model: Reasoner,
        data: TrainingSets,
        monitor: Monitor | None = None,
        world: World | None = None,
        reasons: Sequence[str] = (),
    ):
        """Before the first step; `reasons` tell how each `auto` was resolved.

        All processes draw the same puzzles from config.seed, and each takes its own rows. Each draws all else that is
        random (exploration, noise) from a stream of its own; that of rank 0 is the one that initialized the weights.
        """
        self.config, self.run, self.monitor, self.reasons = config, run, monitor, list(reasons)
        self.world, self.device = world or World(), data.device
        self.model = model.to(self.device)
        if not self.world.first:
            torch.manual_seed(
                int(np.random.SeedSequence([config.seed, self.world.rank]).generate_state(1, np.uint64)[0] >> 1)
            )
        accelerate(model, config.model, dtypes(config.training.precision, self.device), self.device)
        self.compiled = compile_model(model, config.training, self.device)

        _, data_seed = seeds(config.seed)
        self.samplers = Samplers(data, config.training.batch_size, data_seed, config.data.augment, config.data.hints)
        drawn = config.training.batch_size * config.rollout.grad_steps / config.rollout.accum_steps  # an optimizer step
        self.horizon = Horizon(config.training.steps, data.groups / drawn)
        self.scaling = LossScaling(self.device, model.products or model.dtype)
        self.optimizers = Optimizers(model, config.optimizer, self.horizon, self.scaling)
        self.ema = Ema(model, config.ema) if config.ema.decay is not None else None
        self.balancer: AlgGradNorm | None = None  # none: λ = loss.weights
        if config.balance.kind == "alg-grad-norm":
            self.balancer = AlgGradNorm(config.balance, config.loss, config.rollout, self.horizon, self.device)
        frozen_after = config.optimizer.freeze_embedding_after
        self.freezes_at = math.inf if frozen_after is None else frozen_after * self.horizon.epoch

        # One carry for each set. All rows start halted, so the first step replaces the blank puzzles.
        blanks = self.samplers.blanks(config.training.batch_size // self.world.size)
        self.carries: list[Carry] = [first_carry(model, blank, config.rollout) for blank in blanks]
        self.meters = Meters(self.device, self.world)
        self.spoiled = torch.zeros((), dtype=torch.bool, device=self.device)  # a gradient was NaN or infinite
        self.step = 0  # optimizer steps taken
        self.index = 0  # supervision steps taken
        self.seconds = 0.0
        self.best: Reading | None = None
        self.log_position = 0  # bytes of metrics.jsonl at the newest checkpoint
        self.saved: int | None = None  # the step of the newest checkpoint

    @property
    def carry(self) -> Carry:
        """The rows of the set whose turn it is."""
        return self.carries[self.index % len(self.carries)]

    def optimizer_step(self) -> torch.Tensor:
        """N_grad supervision steps, the mean of their gradients, one update; returns the gradient norm."""
        rollout, sets = self.config.rollout, len(self.carries)
        if self.step >= self.freezes_at:
            self.model.freeze_embedding()
        weights: dict[str, float | torch.Tensor] = (
            {**self.config.loss.weights_at(self.step, self.horizon)}
            if self.balancer is None
            else self.balancer.weights(self.step)
        )
        for _ in range(rollout.grad_steps):
            measured = self.balancer is not None and self.balancer.measures(self.index, sets)
            loops = rollout.loops.draw(self.config.seed, self.index, self.step)
            # The balancer measures in eager mode. With gradient checkpointing the backward pass repeats forward calls,
            # and these must save the same tensors as the first calls did: so the whole measured step is eager.
            with torch.compiler.set_stance("force_eager") if measured else contextlib.nullcontext():
                index, turn = divmod(self.index, sets)
                carry, unroll = supervise(self.model, self.carries[turn], self._draw, rollout, index, loops)
                self.carries[turn] = carry
                terms = evaluate_terms(unroll, self.config.loss, weights)
                if measured and self.balancer is not None:
                    self.balancer.update(self.step, terms, self._measured_gradient, self.world.mean)
                self.scaling.scale(weighted_sum(terms, weights) / rollout.grad_steps).backward()
            self.meters.add(unroll, carry, terms, weights)
            self.index += 1
        self.world.average_gradients(self.model.parameters())
        norm = self.optimizers.step(self.step)
        if not self.scaling.enabled:  # loss scaling skips a step whose gradient is infinite: no error
            self.spoiled |= ~norm.isfinite()
        self.step += 1
        if self.ema is not None:
            self.ema.update(self.step)
        return norm

    def _draw(self) -> Batch:
        return self.world.mine(self.samplers.draw(self.index))

    def _measured_gradient(self, loss: torch.Tensor) -> list[torch.Tensor]:
        parts = unscaled_gradient(loss, self.model.balance_weights(), self.scaling.factor(self.device))
        return [self.world.mean(part) for part in parts]

    def train(self, max_steps: int | None = None, max_minutes: float | None = None) -> Outcome:
        """Train to config.training.steps, or to a limit or a signal; the last state is always saved.

        `max_steps` counts the optimizer steps of the run; `max_minutes` is the duration of this call.

        Raises:
            Diverged: a loss or a weight became infinite or NaN.
        """
        c, total = self.config.training, self.config.training.steps
        if self.saved is None:
            state.save(self)  # so that a run with metrics but no checkpoint has lost it
        goal = total if max_steps is None else min(total, max_steps)
        started, earlier = time.perf_counter(), self.seconds
        log = self._open_log() if self.world.first else None
        bar = Progress(total=total, initial=self.step, unit="step", desc="training", disable=not self.world.first)
        try:
            with StopRequest(patient=self.world.size > 1) as stop:
                while self.step < goal and not self.world.any(stop.name is not None):
                    norm = self.optimizer_step()
                    self.seconds = earlier + time.perf_counter() - started
                    bar.update()
                    if self.scaling.stuck:
                        raise state.diverged(self, "the gradient overflows fp16 whatever the loss scale")
                    if self.step % c.log_every == 0 or self.step == total:
                        state.refuse_broken(self)
                        bar.set_postfix_str(log_line(self, norm, log))
                    best = self._validate(log)
                    if best or (self.step % c.checkpoint_every == 0 and self.step < goal):
                        state.save(self, log)
                    if max_minutes is not None and self.seconds - earlier >= 60 * max_minutes:
                        stop.name = stop.name or f"--max-minutes {max_minutes:g}"
                if self.saved != self.step:
                    state.save(self, log)
        finally:
            bar.close()
            if log is not None:
                log.close()
        self.seconds = earlier + time.perf_counter() - started  # with the last validation and checkpoint
        limit = f"--max-steps {max_steps}" if self.step >= goal < total else None
        return Outcome(self.step, None if self.step >= total else stop.name or limit or "another process")

    def _open_log(self) -> MetricsLog:
        tracker = tracker_of(self.config.training.tracker, self.run, self.step, self.config.model_dump(mode="json"))
        return MetricsLog(self.run / "metrics.jsonl", self.log_position, tracker)

    def _validate(self, log: MetricsLog | None) -> bool:
        """Read the validation split if it is time; True if the result is the best so far."""
        c = self.config.training
        due = self.step % (c.monitor.every or c.checkpoint_every) == 0 or self.step == c.steps
        if self.monitor is None or not due:
            return False
        reading, best = self.monitor.read(self.model, self.ema, self.step), self.best
        if log is not None:
            log.write({"step": self.step, **{f"monitor/{k}": v for k, v in vars(reading).items() if k != "step"}})
        self.best = reading if reading.beats(best) else best
        return self.best is reading


def seeds(seed: int) -> tuple[int, int]:
    """The seeds of the initial weights and of the data order."""
    weights, data = (int(s) for s in np.random.SeedSequence(seed).generate_state(2, np.uint64) >> 1)
    return weights, data
