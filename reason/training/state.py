"""The whole state of a training at one step, the content of a checkpoint, saved and restored bit-exactly."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import load_file

from reason.errors import ConfigError, Diverged
from reason.files import read_json
from reason.models.base import Batch
from reason.rollout import Carry
from reason.training import checkpoint
from reason.training.generators import random_states, restore_random_states
from reason.training.log import MetricsLog
from reason.training.monitor import Validation

if TYPE_CHECKING:
    from reason.training.loop import Trainer


def save(trainer: Trainer, log: MetricsLog | None = None) -> None:
    """Write a checkpoint, after metrics.jsonl is on disk. Raises Diverged if a value is not finite."""
    refuse_broken(trainer)
    weights = trainer.model.state_dict()
    ema = None if trainer.ema is None else trainer.ema.state_dict()
    _refuse_infinite(trainer, weights, ema or {})
    trainer.log_position = 0 if log is None else log.sync()  # a later call continues here
    snapshot = _snapshot(trainer)  # in every process, since it gathers
    if trainer.world.first:
        best = None if trainer.best is None else trainer.best.step
        keep = trainer.config.training.keep_checkpoints
        checkpoint.save_checkpoint(trainer.run, trainer.step, weights, ema, snapshot, keep, best)
    trainer.saved = trainer.step


def restore(trainer: Trainer, folder: Path) -> None:
    """Load a checkpoint; training then continues bit for bit as if it had not stopped.

    Raises ConfigError if it was made on another kind of device, in another type, with another config or version.
    """
    try:
        saved = checkpoint.unpack(read_json(folder / "state.json"), load_file(folder / "state.safetensors"))
        _refuse_other(trainer, folder, saved)
        _restore(trainer, folder, saved)
    except KeyError as error:
        raise ConfigError(
            f"{folder} lacks {error}, so another version wrote it; go on with that version, or evaluate it here"
        ) from None


def _parts(trainer: Trainer) -> dict[str, Any]:
    """Return the stateful parts, by their names in a checkpoint."""
    parts = {"optimizer": trainer.optimizers, "scaling": trainer.scaling, "sums": trainer.meters}
    return parts if trainer.balancer is None else parts | {"balance": trainer.balancer}


def _snapshot(trainer: Trainer) -> dict[str, Any]:
    world = trainer.world
    return {
        "device": trainer.device.type,
        "dtype": trainer.model.computes_in,
        "config": trainer.config.model_dump(mode="json"),
        "step": trainer.step,
        "index": trainer.index,
        "seconds": trainer.seconds,
        "log_position": trainer.log_position,
        "best": None if trainer.best is None else dict(vars(trainer.best)),
        "carry": [{name: world.gather_rows(_saved(v)) for name, v in vars(carry).items()} for carry in trainer.carries],
        "random": random_states(trainer.device, world),
        "sampler": {"each": [sampler.state_dict() for sampler in trainer.samplers]},
        **{name: part.state_dict() for name, part in _parts(trainer).items()},
    }


def _refuse_other(trainer: Trainer, folder: Path, held: dict[str, Any]) -> None:
    was = held["dtype"]
    now = trainer.model.computes_in
    if held["device"] != trainer.device.type:
        raise ConfigError(
            f"{folder} was made on {held['device']}, this is {trainer.device}: the random streams of the two differ; "
            f"go on there, or evaluate it here"
        )
    checkpoint.refuse_other_config(held["config"], trainer.config.model_dump(mode="json"), folder)
    if was != now:
        short = was.replace("float32, products in ", "amp-").replace("bfloat", "bf").replace("float", "fp")
        raise ConfigError(f"{folder} was computed in {was}, this would go on in {now}; type training.precision={short}")


def _restore(trainer: Trainer, folder: Path, held: dict[str, Any]) -> None:
    checkpoint.load_into(trainer.model, folder, "raw")
    if trainer.ema is not None:
        trainer.ema.load_state_dict(checkpoint.load_weights(folder, "ema"))
    trainer.step = held["step"]
    trainer.index = held["index"]
    trainer.seconds = held["seconds"]
    trainer.log_position = held["log_position"]
    trainer.saved = trainer.step
    for name, part in _parts(trainer).items():
        part.load_state_dict(held[name])
    for sampler, kept in zip(trainer.samplers, held["sampler"]["each"], strict=True):
        sampler.load_state_dict(kept)
    best = held["best"]
    if best is not None and (folder.parent / f"step-{best['step']:06d}").is_dir():
        trainer.best = Validation(**best)
    own = trainer.world.own_rows
    kind = type(trainer.carries[0].state)
    for set_index, carry in enumerate(held["carry"][: trainer.index]):  # a set without a step keeps its first carry
        c = {name: own(value, trainer.device) for name, value in carry.items()}
        shape = trainer.data.parts[set_index].shape
        batch, loader = (Batch(*c[part])._replace(shape=shape) for part in ("batch", "loader"))
        trainer.carries[set_index] = Carry(batch, kind(*c["state"]), c["steps"], c["halted"], loader)
    restore_random_states(held["random"], trainer.device, trainer.world)


def refuse_broken(trainer: Trainer) -> None:
    """Raise Diverged if a loss since the last log line, or a gradient, was infinite or NaN."""
    if trainer.scaling.stuck:
        raise diverged(trainer, "the gradient overflows fp16 whatever the loss scale")
    term = trainer.meters.broken()
    if term is not None:
        raise diverged(trainer, f"loss {term} is not finite")
    if trainer.meters.spoiled:
        raise diverged(trainer, "the gradient is not finite, though every loss is,")


def _refuse_infinite(trainer: Trainer, weights: dict[str, Any], averages: dict[str, Any]) -> None:
    """Raise Diverged if a weight, its average or a moment is infinite or NaN."""
    entries = trainer.optimizers.state_dict().items()
    moments = {f"{i}/{k}": v for i, entry in entries for k, v in entry.items() if isinstance(v, torch.Tensor)}
    for kind, tensors in (("weight", weights), ("average of", averages), ("moment", moments)):
        name = checkpoint.first_infinite(tensors)
        if name is not None:
            raise diverged(trainer, f"{kind} {name} is not finite")


def diverged(trainer: Trainer, what: str) -> Diverged:
    """Return the error with step, term, last good checkpoint and advice."""
    good = checkpoint.checkpoints(trainer.run)
    wider = " or training.precision=fp32," if trainer.scaling.enabled else ""
    return Diverged(
        f"{what} at step {trainer.step}; last good checkpoint: {good[-1] if good else 'none'}; "
        f"try a smaller optimizer.lr,{wider} or a longer optimizer.schedule.warmup_steps"
    )


def _saved(part: Any) -> Any:
    """Return a field of a carry as stored in a checkpoint: a batch without relations is stored as three tensors."""
    return part[: 4 if part.relations else 3] if isinstance(part, Batch) else part
