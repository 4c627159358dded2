"""The device of a run, its peak memory, and the library of its float32 products."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Iterator
from typing import Any

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
    if device.type == "cpu":
        float32_by_onednn()
    return device


def float32_by_onednn() -> bool:
    """Have oneDNN compute this process's float32 matrix products on the CPU instead of MKL; whether it does.

    On AMD's AVX-512 its kernels are 1.1 to 1.4 times as fast. torch reaches them through the setting that allows
    products in bf16, which oneDNN rounds to on CPUs with AMX alone: where a product comes out rounded, or torch lacks
    the setting, MKL stays.
    """
    fast = _exact_by_onednn()
    if fast:
        products: Any = torch.backends.mkldnn
        products.matmul.fp32_precision = "bf16"
    return fast


@functools.cache
def _exact_by_onednn() -> bool:
    with own_float32():
        products: Any = getattr(torch.backends.mkldnn, "matmul", None)
        if not torch.backends.mkldnn.is_available() or not hasattr(products, "fp32_precision"):
            return False
        products.fp32_precision = "bf16"
        return _exact()


@contextlib.contextmanager
def own_float32(as_torch: bool = False) -> Iterator[None]:
    """What is set for float32 products in the block is undone after it; `as_torch`: it begins as torch's default."""
    products: Any = getattr(torch.backends.mkldnn, "matmul", None)
    before = getattr(products, "fp32_precision", None)
    if as_torch and before is not None:
        products.fp32_precision = "ieee"
    try:
        yield
    finally:
        if before is not None:
            products.fp32_precision = before


def _exact() -> bool:
    """Are the factors of a product used beyond bf16 and TF32? Asked forward and transposed, small and large."""
    for size in (32, 256):
        factor = torch.full((size, size), 1 + 2.0**-12)
        expected = size * (1 + 2.0**-12)
        ones = torch.ones(size, size)
        for product in (factor @ ones, ones @ factor, factor.t() @ ones, (factor[None] @ ones[None])[0]):
            if not torch.allclose(product, torch.tensor(expected), rtol=2.0**-16, atol=0):
                return False
    return True


def await_device(device: torch.device) -> None:
    """Wait until everything that was asked of a device is done; a CPU does it at once."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


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
