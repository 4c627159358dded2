"""The whole state of training at one step, saved and restored bit for bit."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from reason.config.schema import Config
from reason.errors import ConfigError, Diverged
from reason.files import read_json
from reason.losses.balance import build_balancer
from reason.models.base import Batch, Reasoner
from reason.rollout import Carry, first_carry
from reason.settings.schedules import Horizon
from reason.training import checkpoint
from reason.training.compatible import refuse_other_config, refuse_other_dtype
from reason.training.distributed import World
from reason.training.ema import Ema
from reason.training.generators import random_states, restore_random_states
from reason.training.log import Meters
from reason.training.monitor import Monitor, Reading
from reason.training.optim import Optimizers
from reason.training.precision import LossScaling
from reason.training.sets import Samplers

_NOT_OURS = (AssertionError, AttributeError, IndexError, RuntimeError, SafetensorError, TypeError, ValueError)


class TrainingState:
    """Model, optimizer, carry, data stream, meters: everything that a checkpoint holds."""

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
        drawn = config.training.batch_size * config.rollout.grad_steps / config.rollout.accum_steps  # puzzles a step
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
        blanks = samplers.blanks(samplers.batch_size // self.world.size)  # shapes alone: every row has halted
        self.carries: list[Carry] = [first_carry(model, blank) for blank in blanks]  # of each set
        self.spoiled = torch.zeros((), dtype=torch.bool, device=self.device)  # a gradient was NaN or infinite
        self.log_position = 0
        self.compiled = False  # does torch.compile make the model's code?
        self.reasons: list[str] = []  # for what `auto` came to
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
            raise self.diverged(f"loss {term} is no finite number")
        if self.spoiled:
            raise self.diverged("the gradient is no finite number, though every loss is one,")

    def refuse_infinite_weights(self) -> None:
        """Raise Diverged where a weight, its average or a moment is infinite or NaN."""
        averages = {} if self.ema is None else self.ema.state_dict()
        entries = self.optimizers.state_dict().items()
        moments = {f"{i}/{k}": v for i, entry in entries for k, v in entry.items() if isinstance(v, torch.Tensor)}
        for kind, tensors in (("weight", self.model.state_dict()), ("average of", averages), ("moment", moments)):
            name = checkpoint.first_infinite(tensors)
            if name is not None:
                raise self.diverged(f"{kind} {name} is no finite number")

    def diverged(self, what: str) -> Diverged:
        """The error with step, term, last good checkpoint and what to try."""
        good = checkpoint.checkpoints(self.run)
        wider = " or training.precision=fp32," if self.scaling.enabled else ""
        return Diverged(
            f"{what} at step {self.step}; last good checkpoint: {good[-1] if good else 'none'}; "
            f"try a smaller optimizer.lr,{wider} or a longer optimizer.schedule.warmup_steps"
        )


def _saved(part: Any) -> Any:
    """A part of a carry as checkpoints hold it: batches without relations have three tensors."""
    return part[:3] if isinstance(part, Batch) and not part.relations else part
