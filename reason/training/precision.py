"""The type that activations are computed in."""

from __future__ import annotations

from typing import Literal

import torch

from reason.errors import ConfigError

Precision = Literal["auto", "fp32", "bf16"]


def activation_dtype(precision: Precision, device: torch.device) -> torch.dtype:
    """float32 or bfloat16; `auto` takes bfloat16 only where the hardware multiplies in it.

    Raises:
        ConfigError: bf16 was asked of a device that has none.
    """
    if precision == "fp32" or (precision == "auto" and not _computes_bf16(device)):
        return torch.float32
    if device.type == "cuda" and not torch.cuda.is_bf16_supported():
        raise ConfigError(f"training.precision=bf16: {torch.cuda.get_device_name(device)} has no bf16; type fp32")
    return torch.bfloat16


def _computes_bf16(device: torch.device) -> bool:
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return device.type == "cpu" and torch.cpu._is_avx512_bf16_supported()


def pick_device(name: str) -> torch.device:
    """The device that `name` means; auto: CUDA, else Apple's GPU, else the CPU.

    Raises:
        ConfigError: the device is not there.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    device = torch.device(name)
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}[device.type]
    if not there or (device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count()):
        raise ConfigError(f"device={name} is not available here; type device=auto or device=cpu")
    return device
