"""The project's C++ kernels: compiled on first use, and stored under the SHA-256 of their sources and flags."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import shlex
import subprocess
import warnings
from pathlib import Path

import torch
from filelock import FileLock

from reason.files import kept_in, published

SOURCES = Path(__file__).parent / "cpp"
DTYPES = (torch.bfloat16, torch.float32)
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # options of mallopt(3)
FLAGS = ("-O3", "-fno-math-errno", "-fopenmp", "-shared", "-fPIC", "-w")


@functools.cache
def works(dtype: torch.dtype) -> bool:
    """Return whether this processor can run the kernels of a type. Compiles them; prints a failure once."""
    if architecture(dtype) is None:
        return False
    try:
        library(dtype)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        message = (getattr(error, "stderr", None) or b"").decode(errors="replace").strip()
        why = f"the compiler says {message.splitlines()[0]}" if message else error
        warnings.warn(f"no C++ kernel, so training is slower: {why}", stacklevel=2)
        return False
    return True


def architecture(dtype: torch.dtype) -> tuple[str, ...] | None:
    """Return the compiler's flags for numbers of a type on this processor; None if it lacks the instructions.

    bfloat16: AVX-512 BF16; with AMX, products by oneDNN are faster. float32: AVX-512 or AVX2, as torch uses
    (`ATEN_CPU_CAPABILITY`).
    """
    if dtype == torch.bfloat16 and torch.cpu._is_avx512_bf16_supported() and not torch.cpu._is_amx_tile_supported():
        return "-march=x86-64-v4", "-mavx512bf16", "-DBFLOAT16"
    if dtype == torch.float32:
        levels = {"AVX512": "-march=x86-64-v4", "AVX2": "-march=x86-64-v3"}
        level = levels.get(torch.backends.cpu.get_cpu_capability())
        return None if level is None else (level,)
    return None


@functools.cache
def library(dtype: torch.dtype) -> ctypes.CDLL:
    """Return the kernels of a type, compiled once. Raises OSError or SubprocessError if the compilation fails."""
    flags, sources = FLAGS + (architecture(dtype) or ()), sorted(SOURCES.glob("*.cpp"))
    digest = hashlib.sha256(" ".join(flags).encode())
    for source in (*sorted(SOURCES.glob("*.h")), *sources):
        digest.update(source.read_bytes())
    file = kept_in(SOURCES / "__pycache__", "kernels") / f"kernels-{digest.hexdigest()[:24]}.so"
    file.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(file.with_suffix(".lock")):  # only one of several processes compiles
        if not file.exists():
            compiler = shlex.split(os.environ.get("CXX", "")) or ["g++"]
            with published(file, replace=True) as part:
                command = [*compiler, *flags, *map(str, sources), "-o", str(part)]
                subprocess.run(command, check=True, capture_output=True, timeout=300)
    keep_memory()
    return ctypes.CDLL(str(file))


def keep_memory() -> None:
    """Let glibc keep freed memory of any size for the process, up to 2 GB.

    A step stores 100 MB and more for its backward pass; glibc would unmap these blocks, and the system clear them anew.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):  # glibc
        libc.mallopt(M_MMAP_MAX, 0)
        libc.mallopt(M_TRIM_THRESHOLD, 2**31 - 1)
