"""The floating-point types that a model computes in, and loss scaling for fp16."""

from __future__ import annotations

import functools
import platform
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from reason.errors import ConfigError
from reason.nn.dtypes import Dtypes

STUCK = 2.0**-84  # a scale too small to recover (ours): 65,536 at the start, halved a hundred times
Precision = Literal["auto", "fp32", "bf16", "fp16", "amp", "amp-bf16", "amp-fp16"]
_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def dtypes(precision: Precision, device: torch.device) -> Dtypes:
    """Return the types of a precision on a device.

    fp32, bf16 and fp16 hold for states and products alike, as in the code of HRM and TRM. amp-bf16 and amp-fp16 are
    torch.autocast, CMM's "AMP": states, noise and residual sums stay float32, products are halved. fp16 in either form
    scales its loss in training. `auto` takes bfloat16 if the hardware multiplies in it faster than in float32; else
    float16 on CUDA devices with tensor cores, as V100 and T4 are (ours); else float32. `amp` takes that type for the
    products.

    Raises:
        ConfigError: the device has no bf16, or fp16 is asked of Apple's GPU, on which training cannot scale.
    """
    if precision == "auto":
        return Dtypes(_computes(device))
    if precision == "amp":
        fast = _computes(device)
        return Dtypes(torch.float32, None if fast == torch.float32 else fast)
    amp = precision.startswith("amp-")
    half = precision.removeprefix("amp-")
    if half == "bf16" and device.type == "cuda" and not torch.cuda.is_bf16_supported():
        fix = precision.replace("bf16", "fp16")
        raise ConfigError(
            f"training.precision={precision}: {torch.cuda.get_device_name(device)} has no bf16; type {fix}"
        )
    if half == "fp16" and device.type == "mps":
        fix = precision.replace("fp16", "bf16")
        raise ConfigError(f"training.precision={precision}: no loss scaling on Apple's GPUs; type {fix} or fp32")
    return Dtypes(torch.float32, _DTYPES[half]) if amp else Dtypes(_DTYPES[half])


def _computes(device: torch.device) -> torch.dtype:
    """Return the narrowest type that the device multiplies fast and safely."""
    if device.type == "cuda":
        if torch.cuda.is_bf16_supported(including_emulation=False):
            return torch.bfloat16
        return torch.float16 if torch.cuda.get_device_capability(device) >= (7, 0) else torch.float32
    return torch.bfloat16 if device.type == "cpu" and bfloat16_is_faster() else torch.float32


@functools.cache
def bfloat16_is_faster() -> bool:
    """Return whether the CPU multiplies faster in bfloat16 than in float32.

    CPUs with AMX do, and AMD's with AVX-512. Intel's AVX-512 multiplies equally many numbers per cycle in both types,
    and the conversion costs extra (docs/log/performance.md).
    """
    if not torch.cpu._is_avx512_bf16_supported():
        return False
    return torch.cpu._is_amx_tile_supported() or "AuthenticAMD" in _processor()


def _processor() -> str:
    try:
        return Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor()


class LossScaling:
    """torch.amp.GradScaler, and its skipped steps counted. For any type but fp16 it does nothing.

    The loss is multiplied by a scale before backward and the gradients divided by it after; if one overflows, the
    optimizer step is skipped and the scale halved. To know that, the scaler waits for the device in every step; bf16
    and fp32 never wait. A skipped step counts as taken: its puzzles are drawn, the schedule moves (ours).
    """

    def __init__(self, device: torch.device, dtype: torch.dtype):
        self.enabled = dtype == torch.float16  # so that steps with overflowing gradients are skipped
        self.scaler = torch.amp.GradScaler(device.type, enabled=self.enabled)
        self.scale = self.scaler.scale
        self.skipped = 0  # steps, in all

    def factor(self, device: torch.device) -> Tensor | float:
        """Return the scale, without waiting for the device."""
        return self.scale(torch.ones((), device=device)) if self.enabled else 1.0

    def step(self, optimizer: torch.optim.Optimizer) -> bool:
        """Take one step of the optimizer; return False if it was skipped."""
        before = self.scaler.get_scale()
        self.scaler.step(optimizer)
        self.scaler.update()
        moved = self.scaler.get_scale() >= before
        self.skipped += not moved
        return moved

    @property
    def stuck(self) -> bool:
        """Return whether the scale is too small to recover."""
        return self.enabled and self.scaler.get_scale() <= STUCK

    def figures(self) -> dict[str, float]:
        """Return the skipped steps since the start and the scale for the metrics; {} without scaling."""
        return {"skipped_steps": self.skipped, "loss_scale": self.scaler.get_scale()} if self.enabled else {}

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the scale, and the count of skipped steps."""
        return {"scaler": self.scaler.state_dict(), "skipped": self.skipped}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load a saved scale."""
        self.scaler.load_state_dict(state["scaler"] or self.scaler.state_dict())
        self.skipped = state["skipped"]
