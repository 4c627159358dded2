"""The device of a run, its peak memory, and the library of its float32 products."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Iterator
from typing import Any

import torch

from reason.errors import ConfigError

_PRODUCTS: Any = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]


def pick_device(name: str) -> torch.device:
    """Return the device `name`; auto: CUDA, else Apple's GPU, else the CPU. Raises ConfigError if it is missing."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    device = torch.device(name)
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}[device.type]
    if not there or (device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count()):
        raise ConfigError(f"device={name} is not available here; type device=auto or device=cpu")
    return device


def float32_by_onednn() -> None:
    """Use oneDNN instead of MKL for this process's float32 matrix products on the CPU.

    On AMD's AVX-512 its kernels are 1.1 to 1.4 times as fast. torch reaches them through the setting that allows
    products in bf16, which oneDNN rounds to on CPUs with AMX: if a product is rounded, MKL stays.
    """
    if _exact_by_onednn():
        _PRODUCTS.fp32_precision = "bf16"


@functools.cache
def _exact_by_onednn() -> bool:
    """Return whether oneDNN keeps more precision than bf16 and TF32, for forward, transposed, small and large."""
    if not torch.backends.mkldnn.is_available():
        return False
    with own_float32():
        _PRODUCTS.fp32_precision = "bf16"
        for size in (32, 256):
            factor = torch.full((size, size), 1 + 2.0**-12)
            ones = torch.ones(size, size)
            products = torch.stack([factor @ ones, ones @ factor, factor.t() @ ones])
            if not torch.allclose(products, size * factor[0, 0], rtol=2.0**-16, atol=0):
                return False
    return True


@contextlib.contextmanager
def own_float32(as_torch: bool = False) -> Iterator[None]:
    """Restore the setting of float32 products after the block; `as_torch`: begin with torch's default."""
    before = _PRODUCTS.fp32_precision
    if as_torch:
        _PRODUCTS.fp32_precision = "ieee"
    try:
        yield
    finally:
        _PRODUCTS.fp32_precision = before


def peak_memory(device: torch.device) -> int | None:
    """Return this process's peak bytes: tensors on CUDA, resident on a CPU; None if the platform has no such count."""
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
