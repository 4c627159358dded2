"""What this machine cannot hold or compute is refused before training."""

from __future__ import annotations

import torch

from reason.config.overrides import derive
from reason.config.schema import Config
from reason.errors import ConfigError
from reason.machine.estimate import available_memory, estimate_memory, fake_model, readable_size, worth_estimating
from reason.models import ModelConfig, build_model
from reason.models.base import Shape
from reason.nn.dtypes import Dtypes
from reason.training.precision import dtypes
from reason.training.sets import TrainingSets


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


def refuse_large_training(config: Config, shapes: list[Shape], device: torch.device, processes: int = 1) -> None:
    """Refuse what a CPU, which gives no error of its own, would not hold by the estimate.

    Raises:
        ConfigError: with both numbers.
    """
    available = available_memory(device)
    if available is None or device.type != "cpu":
        return
    rows = config.training.batch_size
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
