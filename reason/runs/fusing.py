"""Whether gated layers are one kernel each (`reason.nn.fused_swiglu`), once compiled."""

from __future__ import annotations

import torch

from reason.config.schema import Config
from reason.errors import ConfigError
from reason.models.base import ModelConfig
from reason.nn.dtypes import Dtypes
from reason.training.precision import bfloat16_is_faster, dtypes


def fuses(config: ModelConfig, computed: Dtypes, device: torch.device) -> bool:
    """Are they? `auto`: where bfloat16 is the faster type. What another machine decided holds as far as it can here."""
    asked = config.fusing is True or (config.fusing == "auto" and bfloat16_is_faster())
    return asked and config.unfused(computed, device) is None


def refuse_unfused(config: Config, device: torch.device) -> None:
    """Raises ConfigError where a training was asked for the kernel, and cannot have it."""
    if config.model.fusing is not True:
        return
    why = "nothing is compiled (training.compile=inductor)" if config.training.compile == "none" else None
    why = why or config.model.unfused(dtypes(config.training.precision, device), device)
    if why is not None:
        raise ConfigError(f"model.fused_swiglu=true: {why}; type model.fused_swiglu=false")
