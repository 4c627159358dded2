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
import warnings
from pathlib import Path

import torch

SOURCES = Path(__file__).parent
CACHE = SOURCES / "__pycache__"
WIDTH = 16  # D is a multiple of it
_untested: list[ctypes.CDLL] = []  # compiled by this process
FLAGS = ("-O3", "-march=x86-64-v4", "-mavx512bf16", "-fopenmp", "-shared", "-fPIC", "-w")


@functools.cache
def works() -> bool:
    """Can this processor run the kernels, and do they compute here what torch does?

    Compiled where they were not yet, in seconds. Where there is AMX, products by oneDNN are faster. Without a compiler,
    or where the two differ, a warning says so, once.
    """

    if not torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported():
        return False
    try:
        if library() in _untested:
            _test(library())
    except Exception as error:  # a compiler, a loader and a file system fail in ways of their own
        warnings.warn(f"no kernel of our own, so training is slower: {_reason(error)}", stacklevel=2)
        return False
    return True


def _test(fresh: ctypes.CDLL) -> None:
    """Raises ArithmeticError where a library just compiled computes other numbers than torch; it is not kept."""
    from reason.nn.self_test import agree  # which calls the kernels

    if not agree():
        _digest(Path(fresh._name)).unlink(missing_ok=True)
        raise ArithmeticError("what the compiler made of it computes other numbers than torch; set CXX to another one")
    _untested.remove(fresh)


@functools.cache
def library() -> ctypes.CDLL:
    """The kernels, compiled once for exactly these sources and kept beside Python's cache where that can be written.

    Raises:
        OSError, subprocess.SubprocessError: there is no compiler, or it cannot compile this.
    """
    digest = hashlib.sha256(" ".join(FLAGS).encode())
    for source in sorted([*SOURCES.glob("*.h"), *SOURCES.glob("*.cpp")]):
        digest.update(source.read_bytes())
    file = CACHE / f"kernels-{digest.hexdigest()[:24]}.so"
    with contextlib.suppress(OSError):
        if _is_ours(file) and _digest(file).read_bytes() == _sha256(file).encode():
            return _loaded(file)
    with contextlib.suppress(OSError):
        CACHE.mkdir(exist_ok=True)
    if os.access(CACHE, os.W_OK) and _is_ours(CACHE):
        return _compiled(file)
    with tempfile.TemporaryDirectory() as folder:  # what is loaded stays loaded
        return _compiled(Path(folder) / file.name)


def _is_ours(path: Path) -> bool:
    """May nobody but root and this user write here?"""
    if not hasattr(os, "getuid"):
        return True
    return all(p.stat().st_uid in (0, os.getuid()) and not p.stat().st_mode & 0o022 for p in (path, path.parent))


def _compiled(file: Path) -> ctypes.CDLL:
    """Compile to `file`, which appears whole or not at all, with its SHA-256 beside it."""
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=file.stem, suffix=".part")
    os.close(handle)
    part = Path(name)
    compiler = shlex.split(os.environ.get("CXX", "")) or ["g++"]
    sources = [str(source) for source in sorted(SOURCES.glob("*.cpp"))]
    try:
        subprocess.run([*compiler, *FLAGS, *sources, "-o", name], check=True, capture_output=True, timeout=300)
        part.chmod(0o755)
        with part.open("rb") as written:
            os.fsync(written.fileno())
        _digest(file).write_bytes(_sha256(part).encode())
        part.replace(file)
        _untested.append(_loaded(file))
        return _untested[-1]
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


def _digest(file: Path) -> Path:
    """Where the SHA-256 of a library is kept."""
    return file.with_suffix(".sha256")


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _reason(error: Exception) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        said = error.stderr.decode(errors="replace").strip().splitlines()
        return f"the compiler says {said[0] if said else error.returncode}"
    return str(error)
