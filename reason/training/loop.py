"""The training loop: what it does every step, and what it does once in a while."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import torch
from tqdm import tqdm

from reason.balance import weighted_sum
from reason.data import Sampler
from reason.errors import ConfigError, Diverged
from reason.losses import LossConfig, evaluate_terms
from reason.models.base import Batch, Reasoner
from reason.rollout import Carry, RolloutConfig, first_carry, supervise
from reason.schedules import Horizon
from reason.training import checkpoint
from reason.training.config import TrainingConfig
from reason.training.ema import Ema, EmaConfig
from reason.training.interrupt import StopRequest
from reason.training.log import Meters, MetricsLog
from reason.training.optim import OptimizerConfig, Optimizers


@dataclass(frozen=True)
class Outcome:
    """Why training stopped: None when it is finished."""

    step: int
    stopped_by: str | None


class Settings(Protocol):
    """The parts of a config that training reads."""

    @property
    def seed(self) -> int:
        """Of everything random; here, of the number of loops."""

    @property
    def rollout(self) -> RolloutConfig:
        """Supervision steps, carry, halting."""

    @property
    def loss(self) -> LossConfig:
        """Terms and weights."""

    @property
    def optimizer(self) -> OptimizerConfig:
        """How weights move."""

    @property
    def ema(self) -> EmaConfig:
        """Which average is kept."""

    @property
    def training(self) -> TrainingConfig:
        """How long, and what is written down."""


class Trainer:
    """A model, its optimizer, its carry and its data stream: everything that a checkpoint must hold."""

    def __init__(self, config: Settings, run: Path, model: Reasoner, sampler: Sampler):
        """Start from nothing; `resume` then puts a checkpoint in place."""
        self.config, self.run, self.model, self.sampler = config, run, model, sampler
        self.device = sampler.data.device
        drawn = config.training.batch_size * config.rollout.grad_steps / config.rollout.accum_steps  # puzzles a step
        self.horizon = Horizon(config.training.steps, sampler.data.groups / drawn)
        self.optimizers = Optimizers(model, config.optimizer, self.horizon)
        self.ema = Ema(model, config.ema) if config.ema.rate is not None else None
        self.meters = Meters(self.device)
        self.step = 0  # optimizer steps taken
        self.index = 0  # supervision steps taken
        self.seconds = 0.0
        rows = torch.zeros(sampler.batch_size, dtype=torch.int64, device=self.device)
        self.carry: Carry = first_carry(model, sampler.data.take(rows))  # shapes alone: every row has halted
        self.memory: dict[str, torch.Tensor] = {}  # what loss terms keep between backward passes
        self._log_position = 0

    def optimizer_step(self) -> torch.Tensor:
        """N_grad supervision steps, their gradients averaged, one move of the weights; returns the gradient norm."""
        rollout = self.config.rollout
        grad_steps = rollout.grad_steps
        weights = self.config.loss.weights_at(self.step, self.horizon)
        for _ in range(grad_steps):
            loops = rollout.loops.draw(self.config.seed, self.index, self.step)
            self.carry, unroll = supervise(self.model, self.carry, self.sampler.draw, rollout, self.index, loops)
            terms = evaluate_terms(replace(unroll, memory=self.memory), self.config.loss, weights)
            (weighted_sum(terms, weights) / grad_steps).backward()
            self.meters.add(unroll, self.carry, terms, weights)
            self.index += 1
        norm = self.optimizers.step(self.step)
        self.step += 1
        if self.ema is not None:
            self.ema.update(self.step)
        return norm

    def train(self, max_steps: int | None = None, max_minutes: float | None = None) -> Outcome:
        """Train to config.training.steps, or to a limit or a signal; the last state is always saved.

        `max_steps` counts optimizer steps of the run, `max_minutes` those of this call.

        Raises:
            Diverged: a loss became infinite or NaN.
        """
        total = self.config.training.steps
        goal = min(total, max_steps or total)
        started, earlier = time.perf_counter(), self.seconds
        log = MetricsLog(self.run / "metrics.jsonl", self._log_position)
        bar = tqdm(total=total, initial=self.step, unit="step", desc="training", dynamic_ncols=True)
        try:
            with StopRequest() as stop:
                while self.step < goal and stop.name is None:
                    norm = self.optimizer_step()
                    self.seconds = earlier + time.perf_counter() - started
                    bar.update()
                    if self.step % self.config.training.log_every == 0 or self.step == total:
                        self._log(log, norm, bar)
                    if self.step % self.config.training.checkpoint_every == 0 and self.step < goal:
                        self.save(log.position)
                    if max_minutes is not None and self.seconds - earlier >= 60 * max_minutes:
                        stop.name = stop.name or f"--max-minutes {max_minutes:g}"
                self.save(log.position)
        finally:
            bar.close()
            log.close()
        limit = f"--max-steps {max_steps}" if self.step >= goal < total else None
        return Outcome(self.step, None if self.step >= total else stop.name or limit)

    def _log(self, log: MetricsLog, norm: torch.Tensor, bar: tqdm) -> None:
        c = self.config
        self._refuse_broken()
        means = self.meters.read()
        drawn = self.index * c.training.batch_size
        record = {
            "step": self.step,
            "epoch": drawn / c.rollout.accum_steps / self.sampler.data.groups,
            "puzzle_steps": drawn,
            **means,
            "gradient_norm": norm.item(),
            "lr": c.optimizer.lr * c.optimizer.schedule.factor(self.step - 1, self.horizon),
            "seconds": self.seconds,
            "puzzle_steps_per_second": drawn / self.seconds,
        }
        log.write(record)
        exact = "" if means["exact"] is None else f", exact {means['exact']:.1%}"
        speed = f"{record['puzzle_steps_per_second']:.0f} puzzle-steps/s"
        bar.set_postfix_str(f"loss {means['loss']:.3f}{exact}, {speed}")

    def _refuse_broken(self) -> None:
        term = self.meters.broken()
        if term is not None:
            good = checkpoint.checkpoints(self.run)
            raise Diverged(
                f"loss {term} is no finite number at step {self.step}; last good checkpoint: "
                f"{good[-1] if good else 'none'}; try a smaller optimizer.lr or a longer optimizer.schedule.warmup"
            )

    def save(self, log_position: int) -> Path:
        """Write a checkpoint of everything.

        Raises:
            Diverged: a loss since the last log line was infinite or NaN; nothing is written.
        """
        self._refuse_broken()
        state = {
            "device": self.device.type,
            "step": self.step,
            "index": self.index,
            "seconds": self.seconds,
            "log_position": log_position,
            "optimizer": self.optimizers.state_dict(),
            "sampler": self.sampler.state_dict(),
            "carry": vars(self.carry),
            "memory": self.memory,
            "meters": self.meters.state_dict(),
            "random": checkpoint.random_state(self.device),
        }
        ema = None if self.ema is None else self.ema.state_dict()
        return checkpoint.save_checkpoint(
            self.run, self.step, self.model.state_dict(), ema, state, self.config.training.keep
        )

    def resume(self, folder: Path) -> None:
        """Put everything where the checkpoint has it: what follows is what would have followed, to the bit.

        Raises:
            ConfigError: the checkpoint was made on another kind of device.
        """
        state = checkpoint.load_state(folder)
        if state["device"] != self.device.type:
            raise ConfigError(
                f"{folder} was made on {state['device']}, this is {self.device}: the random streams of the two differ; "
                f"go on there, or evaluate it here"
            )
        self.model.load_state_dict(checkpoint.load_weights(folder, "raw"))
        if self.ema is not None:
            self.ema.load_state_dict(checkpoint.load_weights(folder, "ema"))
        self.step, self.index, self.seconds = state["step"], state["index"], state["seconds"]
        self._log_position = state["log_position"]
        self.optimizers.load_state_dict(state["optimizer"])
        self.sampler.load_state_dict(state["sampler"])
        self.meters.load_state_dict(state["meters"])
        self.memory = {name: kept.to(self.device) for name, kept in state["memory"].items()}
        c = {key: _to(value, self.device) for key, value in state["carry"].items()}
        self.carry = Carry(
            Batch(*c["batch"]),
            type(self.carry.state)(*c["state"]),
            c["steps"],
            c["halted"],
            Batch(*c["loader"]),
            c["survival"],
        )
        checkpoint.restore_random_state(state["random"], self.device)


def _to(value: Any, device: torch.device) -> Any:
    return [part.to(device) for part in value] if isinstance(value, list) else value.to(device)
