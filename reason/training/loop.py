"""The training loop, and its whole state at one step, saved and restored bit for bit."""

from __future__ import annotations

import contextlib
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from datasets_gen.progress import Progress
from reason.config.schema import Config
from reason.errors import ConfigError, Diverged
from reason.files import read_json
from reason.losses import evaluate_terms, weighted_sum
from reason.losses.balance import build_balancer
from reason.models.base import Batch, Reasoner
from reason.rollout import Carry, first_carry, supervise
from reason.settings.schedules import Horizon
from reason.training import checkpoint
from reason.training.compatible import refuse_other_config, refuse_other_dtype
from reason.training.device import peak_memory
from reason.training.distributed import World
from reason.training.ema import Ema
from reason.training.generators import random_states, restore_random_states
from reason.training.interrupt import StopRequest
from reason.training.log import Meters, MetricsLog, tracker_of
from reason.training.monitor import Monitor, Reading
from reason.training.optim import Optimizers, unscaled_gradient
from reason.training.precision import LossScaling
from reason.training.sets import Samplers

_NOT_OURS = (AssertionError, AttributeError, IndexError, RuntimeError, SafetensorError, TypeError, ValueError)


@dataclass(frozen=True)
class Outcome:
    """The last optimizer step, and what stopped training (None: it is finished)."""

    step: int
    stopped_by: str | None


class Trainer:
    """Model, optimizer, carry, data stream and meters, which a checkpoint holds, and the loop over optimizer steps."""

    def __init__(
        self,
        config: Config,
        run: Path,
        model: Reasoner,
        samplers: Samplers,
        monitor: Monitor | None = None,
        world: World | None = None,
    ):
        """Build the initial state; `resume` then loads a checkpoint."""
        self.config, self.run, self.model, self.samplers, self.monitor = config, run, model, samplers, monitor
        self.world = world or World()
        self.device = samplers.data.device
        # Puzzles drawn per optimizer step.
        drawn = config.training.batch_size * config.rollout.grad_steps / config.rollout.accum_steps
        self.horizon = Horizon(config.training.steps, samplers.data.groups / drawn)
        self.balancer = build_balancer(config.balance, config.loss, config.rollout, self.horizon, self.device)
        self.scaling = LossScaling(self.device, model.products or model.dtype)
        self.optimizers = Optimizers(model, config.optimizer, self.horizon, self.scaling)
        self.ema = Ema(model, config.ema) if config.ema.decay is not None else None
        self.meters = Meters(self.device, self.world)
        self.balanced = model.balance_weights()
        frozen_after = config.optimizer.freeze_embedding_after
        self.freezes_at = math.inf if frozen_after is None else frozen_after * self.horizon.epoch
        self.step = 0  # optimizer steps taken
        self.index = 0  # supervision steps taken
        self.seconds = 0.0
        self.best: Reading | None = None
        blanks = samplers.blanks(samplers.batch_size // self.world.size)  # of the right shapes
        # One carry for each training set. All rows start halted, so the first step replaces the blank puzzles.
        self.carries: list[Carry] = [first_carry(model, blank) for blank in blanks]
        self.spoiled = torch.zeros((), dtype=torch.bool, device=self.device)  # a gradient was NaN or infinite
        self.log_position = 0
        self.compiled = False  # is the model compiled?
        self.reasons: list[str] = []  # why each `auto` was resolved as it was
        self.saved: int | None = None  # the step of the newest checkpoint

    @property
    def turn(self) -> int:
        """The set that supervision step number `index` is on."""
        return self.index % len(self.carries)

    @property
    def carry(self) -> Carry:
        """The rows of the set whose turn it is; each set has a carry of its own."""
        return self.carries[self.turn]

    @carry.setter
    def carry(self, carry: Carry) -> None:
        self.carries[self.turn] = carry

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
            # The balancer's measurement runs in eager mode. With gradient checkpointing the backward pass repeats
            # forward calls, and these must save the same tensors as the first calls did. So the whole forward pass of
            # a measured step is eager.
            with torch.compiler.set_stance("force_eager") if measured else contextlib.nullcontext():
                own_index = self.index // len(self.carries)  # supervision steps on this set so far
                self.carry, unroll = supervise(self.model, self.carry, self._draw, rollout, own_index, loops)
                terms = evaluate_terms(unroll, self.config.loss, weights)
                if measured:
                    self.balancer.update(self.step, terms, self._measured_gradient, self.world.mean)
                self.scaling.scale(weighted_sum(terms, weights) / grad_steps).backward()
            self.meters.add(unroll, self.carry, terms, weights)
            self.index += 1
        self.world.average_gradients(self.model.parameters())
        norm = self.optimizers.step(self.step)
        if not self.scaling.enabled:  # loss scaling skips a step whose gradient is infinite: no error
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

        `max_steps` counts the optimizer steps of the run; `max_minutes` is the duration of this call.

        Raises:
            Diverged: a loss or a weight became infinite or NaN.
        """
        if self.saved is None:
            self.save(0)  # so that a run with metrics but no checkpoint has lost it
        total, every = self.config.training.steps, self.config.training.checkpoint_every
        goal = total if max_steps is None else min(total, max_steps)
        started, earlier = time.perf_counter(), self.seconds
        log: MetricsLog | None = None
        if self.world.first:
            tracker = tracker_of(self.config.training.tracker, self.run, self.step, self.config.model_dump(mode="json"))
            log = MetricsLog(self.run / "metrics.jsonl", self.log_position, tracker)
        bar = Progress(total=total, initial=self.step, unit="step", desc="training", disable=not self.world.first)
        try:
            with StopRequest(patient=self.world.size > 1) as stop:
                while self.step < goal and not self.world.any(stop.name is not None):
                    norm = self.optimizer_step()
                    self.seconds = earlier + time.perf_counter() - started
                    bar.update()
                    if self.step % self.config.training.log_every == 0 or self.step == total:
                        self._log(log, norm, bar)
                    best = self._read_monitor(log)
                    if best or (self.step % every == 0 and self.step < goal):
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
        """Sync metrics.jsonl, then save a checkpoint."""
        self.log_position = 0 if log is None else log.sync()  # where a later call continues
        self.save(self.log_position)

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

    def parts(self) -> dict[str, Any]:
        """The stateful parts, by their names in a checkpoint."""
        return {
            "optimizer": self.optimizers,
            "balance": self.balancer,
            "scaling": self.scaling,
            "sampler": self.samplers,
            "meters": self.meters,
        }

    def checkpoint_size(self) -> int:
        """Approximate bytes of a checkpoint: weights, their average, two moments, the carry."""
        numbers = sum(p.numel() for p in self.model.parameters())
        states = [z for carry in self.carries for z in carry.state]
        carried = sum(z.numel() * z.element_size() for z in states) * self.world.size
        return 4 * numbers * (3 if self.ema is None else 4) + carried

    def save(self, log_position: int) -> Path:
        """Write a checkpoint of everything.

        Raises:
            Diverged: a loss since the last log line, a weight, an average or a moment is infinite or NaN; nothing is
                written.
        """
        self.refuse_broken()
        self.refuse_infinite_weights()
        state = self._snapshot(log_position)  # by every process: it gathers
        ema = None if self.ema is None else self.ema.state_dict()
        best = None if self.best is None else self.best.step
        folder = self.run / "checkpoints" / f"step-{self.step:06d}"
        if self.world.first:
            keep = self.config.training.keep_checkpoints
            folder = checkpoint.save_checkpoint(self.run, self.step, self.model.state_dict(), ema, state, keep, best)
        self.saved = self.step
        return folder

    def resume(self, folder: Path) -> None:
        """Load a checkpoint; training then continues bit for bit as if it had not stopped.

        Raises:
            ConfigError: the checkpoint was made on another kind of device, in another type, with another config, or by
                another version.
        """
        try:
            tensors = load_file(folder / "state.safetensors")
            state = checkpoint.unpack(read_json(folder / "state.json"), tensors)
            self._refuse_other(folder, state)
            self._restore(folder, state)
        except ConfigError:
            raise
        except KeyError as error:
            raise ConfigError(
                f"{folder} lacks {error}, so another version wrote it; go on with that version, or evaluate it here"
            ) from None
        except _NOT_OURS as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise ConfigError(
                f"{folder} does not hold what this training saves ({reason}); remove it to go on with the one before"
            ) from None

    def _snapshot(self, log_position: int) -> dict[str, Any]:
        world = self.world
        return {
            "device": self.device.type,
            "dtype": self.model.computes_in,
            "config": self.config.model_dump(mode="json"),
            "step": self.step,
            "index": self.index,
            "seconds": self.seconds,
            "log_position": log_position,
            "best": None if self.best is None else dict(vars(self.best)),
            "carry": [
                {name: world.gather_rows(_saved(v)) for name, v in vars(carry).items()} for carry in self.carries
            ],
            "random": random_states(self.device, world),
            **{name: part.state_dict() for name, part in self.parts().items()},
        }

    def _refuse_other(self, folder: Path, state: dict[str, Any]) -> None:
        if state["device"] != self.device.type:
            raise ConfigError(
                f"{folder} was made on {state['device']}, this is {self.device}: the random streams of the two differ; "
                f"go on there, or evaluate it here"
            )
        refuse_other_config(state.get("config", {}), self.config.model_dump(mode="json"), folder)
        refuse_other_dtype(state.get("dtype", self.model.computes_in), self.model.computes_in, folder)

    def _restore(self, folder: Path, state: dict[str, Any]) -> None:
        checkpoint.load_into(self.model, folder, "raw")
        if self.ema is not None:
            self.ema.load_state_dict(checkpoint.load_weights(folder, "ema"))
        self.step, self.index, self.seconds = state["step"], state["index"], state["seconds"]
        self.log_position, self.saved = state["log_position"], self.step
        for name, part in self.parts().items():
            if name in state:
                part.load_state_dict(state[name])
        best = state.get("best")
        if best is not None and (folder.parent / f"step-{best['step']:06d}").is_dir():
            self.best = Reading(**best)
        own, kind = self.world.own_rows, type(self.carry.state)
        for turn, carry in enumerate(state["carry"]):
            c = {name: own(value, self.device) for name, value in carry.items()}
            batch, loader = Batch(*c["batch"]), Batch(*c["loader"])
            self.carries[turn] = Carry(batch, kind(*c["state"]), c["steps"], c["halted"], loader, c["survival"])
        restore_random_states(state["random"], self.device, self.world)

    def refuse_broken(self) -> None:
        """Raise Diverged where a loss since the last log line, or a gradient, was infinite or NaN."""
        term = self.meters.broken()
        if term is not None:
            raise self.diverged(f"loss {term} is not finite")
        if self.spoiled:
            raise self.diverged("the gradient is not finite, though every loss is,")

    def refuse_infinite_weights(self) -> None:
        """Raise Diverged where a weight, its average or a moment is infinite or NaN."""
        averages = {} if self.ema is None else self.ema.state_dict()
        entries = self.optimizers.state_dict().items()
        moments = {f"{i}/{k}": v for i, entry in entries for k, v in entry.items() if isinstance(v, torch.Tensor)}
        for kind, tensors in (("weight", self.model.state_dict()), ("average of", averages), ("moment", moments)):
            name = checkpoint.first_infinite(tensors)
            if name is not None:
                raise self.diverged(f"{kind} {name} is not finite")

    def diverged(self, what: str) -> Diverged:
        """The error with step, term, last good checkpoint and what to try."""
        good = checkpoint.checkpoints(self.run)
        wider = " or training.precision=fp32," if self.scaling.enabled else ""
        return Diverged(
            f"{what} at step {self.step}; last good checkpoint: {good[-1] if good else 'none'}; "
            f"try a smaller optimizer.lr,{wider} or a longer optimizer.schedule.warmup_steps"
        )


def _saved(part: Any) -> Any:
    """A field of a carry as stored in a checkpoint: a batch without relations is stored as three tensors."""
    return part[:3] if isinstance(part, Batch) and not part.relations else part
