"""The training loop."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass

import torch

from datasets_gen.progress import Progress
from reason.errors import RunLost
from reason.losses import evaluate_terms
from reason.losses.balance import weighted_sum
from reason.models.base import Batch
from reason.rollout import supervise
from reason.training.device import peak_memory
from reason.training.interrupt import StopRequest
from reason.training.log import MetricsLog, tracker_of
from reason.training.optim import unscaled_gradient
from reason.training.state import TrainingState


@dataclass(frozen=True)
class Outcome:
    """Why training stopped: None when it is finished."""

    step: int
    stopped_by: str | None


class Trainer(TrainingState):
    """The loop over optimizer steps."""

    def _draw(self) -> Batch:
        return self.world.mine(self.samplers.draw(self.index))

    def optimizer_step(self) -> torch.Tensor:
        """N_grad supervision steps, the mean of their gradients, one update; returns the gradient norm."""
        rollout = self.config.rollout
        grad_steps = rollout.grad_steps
        if self.step >= self.freezes_at:
            self.model.freeze_embedding()
        weights = self.balancer.weights(self.step)
        for _ in range(grad_steps):
            measured = self.balancer.measures(self.index, len(self.samplers.each))
            loops = rollout.loops.draw(self.config.seed, self.index, self.step)
            # Measuring is eager. Gradient checkpointing repeats calls in the backward pass, and the repeated calls must
            # save the same tensors as the first ones: so these are eager, too.
            with torch.compiler.set_stance("force_eager") if measured else contextlib.nullcontext():
                own_index = self.index // len(self.carries)  # of this set alone; self.carry is its carry
                self.carry, unroll = supervise(self.model, self.carry, self._draw, rollout, own_index, loops)
                terms = evaluate_terms(unroll, self.config.loss, weights)
                if measured:
                    self.balancer.update(self.step, terms, self._measured_gradient, self.world.mean)
                self.scaling.scale(weighted_sum(terms, weights) / grad_steps).backward()
            self.meters.add(unroll, self.carry, terms, weights)
            self.index += 1
        self.world.average_gradients(self.model.parameters())
        norm = self.optimizers.step(self.step)
        if not self.scaling.enabled:  # loss scaling skips a step whose gradient is infinite
            self.spoiled |= ~norm.isfinite()
        self.step += 1
        if self.scaling.stuck:
            raise self.diverged("the gradient overflows fp16 whatever the loss scale")
        if self.ema is not None:
            self.ema.update(self.step)
        return norm

    def _measured_gradient(self, loss: torch.Tensor) -> list[torch.Tensor]:
        return [self.world.mean(g) for g in unscaled_gradient(loss, self.balanced, self.scaling.factor(self.device))]

    def train(self, max_steps: int | None = None, max_minutes: float | None = None) -> Outcome:
        """Train to config.training.steps, or to a limit or a signal; the last state is always saved.

        `max_steps` counts optimizer steps of the run, `max_minutes` those of this call.

        Raises:
            Diverged: a loss or a weight became infinite or NaN.
            RunLost: the run's folder was removed; it is there again with a checkpoint of this step.
        """
        if self.saved is None:
            self.save(0)  # so that a run without a checkpoint is one that has lost it
        total, every = self.config.training.steps, self.config.training.checkpoint_every
        goal = total if max_steps is None else min(total, max_steps)
        started, earlier = time.perf_counter(), self.seconds
        log: MetricsLog | None = None
        if self.world.first:
            tracker = tracker_of(self.config.training.tracker, self.run, self.step, self.config.model_dump(mode="json"))
            log = MetricsLog(self.run / "metrics.jsonl", self.log_position, tracker)
            self.record = (self.run / "config.json").read_bytes()  # which no checkpoint holds
        bar = Progress(total=total, initial=self.step, unit="step", desc="training", disable=not self.world.first)
        try:
            with StopRequest(patient=self.world.size > 1) as stop:
                while self.step < goal and not self.world.any(stop.name is not None):
                    norm = self.optimizer_step()
                    self.seconds = earlier + time.perf_counter() - started
                    bar.update()
                    if self.step % self.config.training.log_every == 0 or self.step == total:
                        self._log(log, norm, bar)
                    if self._read_monitor(log) or (self.step % every == 0 and self.step < goal):
                        self._save(log)
                    if max_minutes is not None and self.seconds - earlier >= 60 * max_minutes:
                        stop.name = stop.name or f"--max-minutes {max_minutes:g}"
                if self.saved != self.step:
                    self._save(log)
        finally:
            bar.close()
            if log is not None:
                log.close()
        self.seconds = earlier + time.perf_counter() - started  # with the last reading and checkpoint
        limit = f"--max-steps {max_steps}" if self.step >= goal < total else None
        return Outcome(self.step, None if self.step >= total else stop.name or limit or "another process")

    def _save(self, log: MetricsLog | None) -> None:
        """A checkpoint, once metrics.jsonl is on the disk; in a folder made anew where it was removed."""
        file = self.run / "config.json"
        lost = self.world.any(self.world.first and not file.exists())
        if lost and self.world.first:
            self.run.mkdir(parents=True, exist_ok=True)
            file.write_bytes(self.record)
        self.log_position = 0 if log is None else log.sync()  # where a further call goes on
        self.save(self.log_position)
        if lost:
            raise RunLost(
                f"{self.run} was removed while it was trained; it is there again with its config and the checkpoint of "
                f"step {self.step}, without older checkpoints, metrics and evaluations; go on with --resume"
            )

    def _log(self, log: MetricsLog | None, norm: torch.Tensor, bar: Progress) -> None:
        c = self.config
        self.refuse_broken()
        means = self.meters.read()
        drawn = self.index * c.training.batch_size
        record = {
            "step": self.step,
            "epoch": drawn / c.rollout.accum_steps / self.samplers.data.groups,
            "puzzle_steps": drawn,
            **means,
            "gradient_norm": norm.item(),
            "lr": c.optimizer.lr * c.optimizer.schedule.factor(self.step - 1, self.horizon),
            **self.scaling.figures(),
            "seconds": self.seconds,
            "puzzle_steps_per_second": drawn / self.seconds,
            "memory_peak": peak_memory(self.device),
        }
        if log is not None:
            log.write(record | self.balancer.metrics())
        exact = "" if means["exact"] is None else f", exact {means['exact']:.1%}"
        speed = f"{record['puzzle_steps_per_second']:.0f} puzzle-steps/s"
        bar.set_postfix_str(f"loss {means['loss']:.3f}{exact}, {speed}")

    def _read_monitor(self, log: MetricsLog | None) -> bool:
        """Run the monitor if it is due and log the result; True if it is the best so far."""
        c = self.config.training
        due = self.step % (c.monitor.every or c.checkpoint_every) == 0 or self.step == c.steps
        if self.monitor is None or not due:
            return False
        reading, best = self.monitor.read(self.model, self.ema, self.step), self.best
        if log is not None:
            log.write({"step": self.step, **{f"monitor/{k}": v for k, v in vars(reading).items() if k != "step"}})
        self.best = reading if reading.beats(best) else best
        return self.best is reading
