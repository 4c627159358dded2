"""Files and folders that are complete or absent: written under a hidden name, then renamed."""

from __future__ import annotations

import contextlib
import glob
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

HOUR = 3600.0  # seconds


@contextlib.contextmanager
def scratch_beside(place: Path) -> Iterator[Path]:
    """Yield an empty folder .NAME.0123abcd.partial next to `place`; remove it unless the block renames it.

    Such a folder that is older than an hour was left by a killed process, and is removed first.
    """
    place = Path(os.path.abspath(place))  # "." has no name
    place.parent.mkdir(parents=True, exist_ok=True)
    for left in place.parent.glob(f".{glob.escape(place.name)}.????????.partial"):
        if time.time() - left.stat().st_mtime > HOUR:
            shutil.rmtree(left, ignore_errors=True)
    scratch = place.with_name(f".{place.name}.{secrets.token_hex(4)}.partial")
    scratch.mkdir()
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@contextlib.contextmanager
def published(place: Path, replace: bool = False) -> Iterator[Path]:
    """Yield a path of the same name in a scratch folder; if the block succeeds, its content becomes `place`.

    replace: what is at `place` gives way; else only an empty folder does, and OSError is raised for others.
    """
    place = Path(os.path.abspath(place))
    with scratch_beside(place) as scratch:
        new = scratch / place.name
        yield new
        if place.is_dir():
            place.rename(scratch / f"{place.name}.old") if replace else place.rmdir()
        new.replace(place)
