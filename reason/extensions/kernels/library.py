"""The project's C++ kernels: compiled on first use, kept with their SHA-256, and loaded only where the two agree."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import os
import shlex
import subprocess
import tempfile
from pathlib import Path

import torch

SOURCES = Path(__file__).parent / "cpp"
CACHE = SOURCES / "__pycache__"
DTYPES = (torch.bfloat16, torch.float32)
WIDTH = 16  # D is a multiple of it
UNTESTED: list[ctypes.CDLL] = []  # compiled by this process
FLAGS = ("-O3", "-fno-math-errno", "-fopenmp", "-shared", "-fPIC", "-w")


def architecture(dtype: torch.dtype) -> tuple[str, ...] | None:
    """The compiler's flags for numbers of a type on this processor; None where the kernels have no instructions.

    bfloat16: AVX-512 BF16, but where there is AMX, products by oneDNN are faster. float32: AVX-512 or AVX2, as torch
    uses here (`ATEN_CPU_CAPABILITY`).
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
    """The kernels of a type, compiled once for these sources and kept beside Python's cache where that can be written.

    Raises:
        OSError, subprocess.SubprocessError: there is no compiler, or it cannot compile this.
    """
    flags = FLAGS + (architecture(dtype) or ())
    digest = hashlib.sha256(" ".join(flags).encode())
    for source in sorted([*SOURCES.glob("*.h"), *SOURCES.glob("*.cpp")]):
        digest.update(source.read_bytes())
    file = CACHE / f"kernels-{digest.hexdigest()[:24]}.so"
    with contextlib.suppress(OSError):
        if _is_ours(file) and digest_of(file).read_bytes() == _sha256(file).encode():
            return _loaded(file)
    with contextlib.suppress(OSError):
        CACHE.mkdir(exist_ok=True)
    if os.access(CACHE, os.W_OK) and _is_ours(CACHE):
        return _compiled(file, flags)
    with tempfile.TemporaryDirectory() as folder:  # what is loaded stays loaded
        return _compiled(Path(folder) / file.name, flags)


def _is_ours(path: Path) -> bool:
    """May nobody but root and this user write here?"""
    if not hasattr(os, "getuid"):
        return True
    return all(p.stat().st_uid in (0, os.getuid()) and not p.stat().st_mode & 0o022 for p in (path, path.parent))


def _compiled(file: Path, flags: tuple[str, ...]) -> ctypes.CDLL:
    """Compile to `file`, which appears whole or not at all, with its SHA-256 beside it."""
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=file.stem, suffix=".part")
    os.close(handle)
    part = Path(name)
    compiler = shlex.split(os.environ.get("CXX", "")) or ["g++"]
    sources = [str(source) for source in sorted(SOURCES.glob("*.cpp"))]
    try:
        subprocess.run([*compiler, *flags, *sources, "-o", name], check=True, capture_output=True, timeout=300)
        part.chmod(0o755)
        with part.open("rb") as written:
            os.fsync(written.fileno())
        digest_of(file).write_bytes(_sha256(part).encode())
        part.replace(file)
        UNTESTED.append(_loaded(file))
        return UNTESTED[-1]
    finally:
        part.unlink(missing_ok=True)


def _loaded(file: Path) -> ctypes.CDLL:
    """Load the kernels, and let glibc keep the memory of a step for the next one.

    glibc hands large blocks back to the system, which clears every page when they are asked for again: with what a step
    of D 64 keeps for its backward pass, that was a seventh of the time.
    """
    with contextlib.suppress(OSError, AttributeError):  # another C library
        process = ctypes.CDLL(None)
        for parameter, value in ((-3, 1 << 30), (-1, (1 << 31) - 1)):  # M_MMAP_THRESHOLD, M_TRIM_THRESHOLD
            process.mallopt(parameter, value)
    return ctypes.CDLL(str(file))


def digest_of(file: Path) -> Path:
    """Where the SHA-256 of a library is kept; without it the library is not used again."""
    return file.with_suffix(".sha256")


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
