"""What computes a model faster than plain torch: entries of a table, which extensions fill (`model.fused`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch

from reason.models.base import ModelConfig, Reasoner
from reason.nn.dtypes import Dtypes
from reason.plugins import installed
from reason.training.precision import bfloat16_is_faster


class Accelerator(NamedTuple):
    """Other code for the supervision steps of a model."""

    lacks: Callable[[ModelConfig, Dtypes, torch.device], str | None]  # why it cannot compute this model; None: it can
    install: Callable[[Reasoner], None]  # into a built model: `RecursiveModel.stepper`, so nothing is left to compile


ACCELERATORS: dict[str, Accelerator] = {}  # by name; the first that can compute a model does


def fused(config: ModelConfig) -> bool | str:
    """The setting `model.fused`: true, false or auto; false where a family has no such setting."""
    return getattr(config, "fused", False)


def accelerator(config: ModelConfig, computed: Dtypes, device: torch.device) -> Accelerator | None:
    """What computes the model, if anything. auto: in float32, and in bfloat16 where that is the faster type.

    What another machine decided holds as far as it can here.
    """
    faster = computed.states == torch.float32 or bfloat16_is_faster()
    if fused(config) is not True and not (fused(config) == "auto" and faster):
        return None
    return next((each for each in ACCELERATORS.values() if each.lacks(config, computed, device) is None), None)


def lacking(config: ModelConfig, computed: Dtypes, device: torch.device) -> str:
    """Why no accelerator computes the model."""
    reasons = [each.lacks(config, computed, device) for each in ACCELERATORS.values()]
    return "; ".join(filter(None, reasons)) or f"kernels are an extension; {installed()}"


def accelerate(model: Reasoner, config: ModelConfig, computed: Dtypes, device: torch.device) -> None:
    """Put the accelerator of a model, if it has one, into it."""
    if (found := accelerator(config, computed, device)) is not None:
        found.install(model)
