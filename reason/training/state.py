"""All that a trainer is, as a checkpoint's state: taken from it, and put back to the bit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from reason.errors import ConfigError
from reason.models.base import Batch
from reason.rollout import Carry
from reason.training import checkpoint
from reason.training.identity import refuse_other_config, refuse_other_dtype
from reason.training.monitor import Reading

if TYPE_CHECKING:
    from reason.training.loop import Trainer


def state_of(trainer: Trainer, log_position: int) -> dict[str, Any]:
    """Everything but the weights and their average; every process calls it, for rows are gathered."""
    world = trainer.world
    return {
        "device": trainer.device.type,
        "dtype": _name(trainer),
        "config": trainer.config.model_dump(mode="json"),
        "step": trainer.step,
        "index": trainer.index,
        "seconds": trainer.seconds,
        "log_position": log_position,
        "best": None if trainer.best is None else trainer.best.as_dict(),
        "carry": {name: world.gather_rows(value) for name, value in vars(trainer.carry).items()},
        "memory": {name: world.gather(kept) for name, kept in trainer.memory.items()},
        "random": checkpoint.random_states(trainer.device, world),
        **{name: part.state_dict() for name, part in trainer.parts().items()},
    }


def restore(trainer: Trainer, folder: Path) -> None:
    """As Trainer.resume says."""
    try:
        state = checkpoint.load_state(folder)
        _refuse(trainer, folder, state)
        _restore(trainer, folder, state)
    except KeyError as error:
        raise ConfigError(
            f"{folder} lacks {error}, so another version wrote it; go on with that version, or evaluate it here"
        ) from None


def _name(trainer: Trainer) -> str:
    return str(trainer.model.dtype).removeprefix("torch.")


def _refuse(trainer: Trainer, folder: Path, state: dict[str, Any]) -> None:
    if state["device"] != trainer.device.type:
        raise ConfigError(
            f"{folder} was made on {state['device']}, this is {trainer.device}: the random streams of the two differ; "
            f"go on there, or evaluate it here"
        )
    refuse_other_config(state.get("config", {}), trainer.config.model_dump(mode="json"), folder)
    refuse_other_dtype(state.get("dtype", _name(trainer)), _name(trainer), folder)


def _restore(trainer: Trainer, folder: Path, state: dict[str, Any]) -> None:
    try:
        trainer.model.load_state_dict(checkpoint.load_weights(folder, "raw"))
    except RuntimeError as error:  # names or shapes
        reason = str(error).splitlines()[-1].strip()
        raise ConfigError(f"{folder} does not fit the model of config.json ({reason}); put config.json back") from None
    if trainer.ema is not None:
        trainer.ema.load_state_dict(checkpoint.load_weights(folder, "ema"))
    trainer.step, trainer.index, trainer.seconds = state["step"], state["index"], state["seconds"]
    trainer.log_position, trainer.saved = state["log_position"], trainer.step
    for name, part in trainer.parts().items():
        if name in state:
            part.load_state_dict(state[name])
    best = state.get("best")
    if best is not None and (folder.parent / f"step-{best['step']:06d}").is_dir():
        trainer.best = Reading(**best)
    if "carry" in state:  # else it was left out of an archive: every row starts anew
        _restore_carry(trainer, state)
    checkpoint.restore_random_states(state["random"], trainer.device, trainer.world)


def _restore_carry(trainer: Trainer, state: dict[str, Any]) -> None:
    own, device = trainer.world.own_rows, trainer.device
    c = {name: own(value, device) for name, value in state["carry"].items()}
    kind = type(trainer.carry.state)
    batch, loader = Batch(*c["batch"]), Batch(*c["loader"])
    trainer.carry = Carry(batch, kind(*c["state"]), c["steps"], c["halted"], loader, c["survival"])
    trainer.memory = {name: own(kept, device) for name, kept in state.get("memory", {}).items()}
