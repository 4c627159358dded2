"""Before training, what this machine cannot hold or compute is refused, and `auto` becomes a choice."""

from __future__ import annotations

import json
from typing import NamedTuple

import torch

from reason.config.overrides import derive
from reason.config.schema import Config
from reason.errors import ConfigError
from reason.machine.auto import Resolved, choices, resolve
from reason.machine.estimate import available_memory, estimate_memory, fake_model, readable_size, worth_estimating
from reason.models import ModelConfig, build_model
from reason.models.base import Shape
from reason.nn.dtypes import Dtypes
from reason.training.distributed import World
from reason.training.precision import dtypes
from reason.training.sets import TrainingSets


class Machine(NamedTuple):
    """The device of this process, and the processes that train together."""

    device: torch.device
    world: World = World()


def check(config: Config, data: TrainingSets, machine: Machine) -> Resolved:
    """Refuse a training that the machine, the set or the processes cannot have; decide what `auto` is.

    Nothing is allocated: models are built without memory.

    Raises:
        ConfigError: naming the setting, the reason and what to type.
    """
    device, processes = machine.device, machine.world.size
    batch_size, shapes = config.training.batch_size, [part.shape for part in data.parts]
    if batch_size % processes:
        near = max(1, round(batch_size / processes)) * processes
        raise ConfigError(
            f"training.batch_size={batch_size} does not divide among {processes} processes; "
            f"type training.batch_size={near}"
        )
    if config.data.hints and not data.shape.structure.alphabet:
        raise ConfigError(
            f"data.hints={config.data.hints} fills cells in, and {data.directory} declares no symbols to fill in; "
            "type data.hints=0"
        )
    refuse_large_model(config.model, data.shape, device)
    config, reasons = resolve(config, shapes, device, processes)
    config = derive(config, json.loads(machine.world.tell(json.dumps(choices(config)))))  # GPUs may differ in memory
    refuse_unfused(config, device)
    refuse_other_sizes(config, data)
    refuse_large_training(config, shapes, machine)
    return Resolved(config, reasons)


def refuse_large_model(model: ModelConfig, shape: Shape, device: torch.device) -> None:
    """Count a model's weights without memory.

    Raises:
        ConfigError: they take more than is available.
    """
    with torch.device("meta"):
        built = build_model(model, shape)
    size = sum(tensor.numel() * tensor.element_size() for tensor in (*built.parameters(), *built.buffers()))
    available = available_memory(device)
    if available is not None and size > available:
        raise ConfigError(
            f"the weights of this model for {shape} take {readable_size(size)}, {readable_size(available)} are "
            f"available on {device}; type a smaller model.hidden_size or model.num_layers"
        )


def refuse_unfused(config: Config, device: torch.device) -> None:
    """Raises ConfigError where a training was asked for the fused kernel and cannot have it."""
    if config.model.fusing is not True:
        return
    needs_graphs = not config.model.fuses_steps and config.training.compile == "none"
    why = "nothing is compiled (training.compile=inductor)" if needs_graphs else None
    why = why or config.model.unfused(dtypes(config.training.precision, device), device)
    if why is not None:
        raise ConfigError(f"model.fused=true: {why}; type model.fused=false")


def refuse_other_sizes(config: Config, data: TrainingSets) -> None:
    """Raises ConfigError where one model cannot read the puzzles of all sets."""
    first, *others = data.parts
    for part in others:
        with fake_model(config, first.shape, Dtypes(torch.float32), "cpu") as model:
            if not model.reads(part.shape):
                raise ConfigError(
                    f"{part.directory} has {part.shape}, {first.directory} {first.shape}, and this model cannot "
                    "read both: type model.mixer=local, groups or attention, with model.positions=none or rotary-2d"
                )


def refuse_large_training(config: Config, shapes: list[Shape], machine: Machine) -> None:
    """Refuse what a CPU, which gives no error of its own, would not hold by the estimate.

    Raises:
        ConfigError: with both numbers.
    """
    device, available = machine.device, available_memory(machine.device)
    if available is None or device.type != "cpu":
        return
    rows, processes = config.training.batch_size, machine.world.size
    share = derive(config, {"training.batch_size": rows // processes})
    for shape in shapes:
        if not worth_estimating(share, shape, available):
            continue
        size = estimate_memory(share, shape, dtypes(config.training.precision, device), "cpu").total
        if size > available:
            fewer = max(1, int(rows * available / size / 2))
            raise ConfigError(
                f"training.batch_size={rows}: training would hold {readable_size(size)}, {readable_size(available)} "
                f"are available on {device}; type training.batch_size={fewer}, or a smaller model"
            )
