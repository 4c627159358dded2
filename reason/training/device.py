"""The device of a run, and its peak memory."""

from __future__ import annotations

import sys

import torch

from reason.errors import ConfigError


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


def peak_memory(device: torch.device) -> int | None:
    """Peak bytes of this process: on CUDA of tensors, on a CPU resident; None where the platform has no such count."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    if device.type == "mps":
        return torch.mps.driver_allocated_memory()
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
