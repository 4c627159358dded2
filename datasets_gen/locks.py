"""Locks on folders, by which a process sees whether another still writes there."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


@contextlib.contextmanager
def directory_lock(folder: Path) -> Iterator[None]:
    """Hold a folder itself: unlike a lock file it cannot be removed while it is held.

    Where directories cannot be locked (Windows, some network file systems) nothing is.

    Raises:
        BlockingIOError: another process holds it.
    """
    if fcntl is None:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError:
            pass
        yield
    finally:
        os.close(descriptor)
