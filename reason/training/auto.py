"""Resolution of `auto` by device, size and mixer, once before the first step; config.json records the result."""

from __future__ import annotations

import torch

from reason.config.overrides import Changes, derive, leaves
from reason.config.schema import Config
from reason.errors import ConfigError
from reason.models.base import Shape
from reason.models.mixing import numbers_written
from reason.training.accelerate import accelerator, fused, inductor_works, lacking
from reason.training.precision import dtypes

# Numbers that layers write in a training from which compiling (half a minute to a minute) is worth it at 1.2 × the
# speed: a core writes some 25 million a second in eager mode, forward and backward, so this is about four minutes.
LONG = {"cpu": 6e9, "cuda": 6e11}

AUTO = ("model.fused", "training.compile")


def choices(config: Config) -> Changes:
    """Return the settings that can be `auto`, as far as the config has them."""
    values = leaves(config.model_dump(mode="json"))
    return {key: values[key] for key in AUTO if key in values}


def resolve(config: Config, shapes: list[Shape], device: torch.device) -> tuple[Config, list[str]]:
    """Choose `model.fused` and `training.compile` if they are auto; return the config and messages about the choice.

    model.fused: true if an accelerator computes the steps; else it stays auto, so that another machine may use one.
    training.compile: none if an accelerator computes them, else inductor for a long training.
    """
    training = config.training
    computed = dtypes(config.training.precision, device)
    written = max(numbers_written(config.model, shape) for shape in shapes) * config.rollout.loops.typical
    steps = training.steps * config.rollout.grad_steps * training.batch_size
    config, reasons = resolve_compile(config, "training.compile", steps * written, device)
    chosen = accelerator(config.model, computed, device)
    if fused(config.model) == "auto" and chosen is not None:
        config = derive(config, {"model.fused": True})
    if fused(config.model) is True and chosen is None:
        raise ConfigError(f"model.fused=true: {lacking(config.model, computed, device)}; type model.fused=false")
    return config, reasons


def resolve_compile(config: Config, setting: str, written: float, device: torch.device) -> tuple[Config, list[str]]:
    """Replace auto by none if an accelerator computes the steps or they write few numbers, else by inductor."""
    if leaves(config.model_dump())[setting] != "auto":
        return config, []
    compiled = "none"
    reasons: list[str] = []
    chosen = accelerator(config.model, dtypes(config.training.precision, device), device)
    if chosen is None and written >= LONG.get(device.type, float("inf")):
        works = inductor_works(device)
        compiled = "inductor" if works else "none"
        slow = "torch.compile makes no code here (it needs a C++ compiler): slower"
        reasons = ["torch.compile: the first steps take half a minute or more, the rest less" if works else slow]
    return derive(config, {setting: compiled}), reasons
