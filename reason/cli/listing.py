"""Name, size and first line of every preset, cached on disk: the list is then printed without importing torch."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from pathlib import Path
from typing import NamedTuple

from reason.errors import ConfigError
from reason.files import read_json
from reason.own_code import IMPORTED

PACKAGES = [Path(__file__).parents[2] / name for name in ("reason", "datasets_gen")]
CACHE = Path(__file__).parent / "__pycache__"


class Listed(NamedTuple):
    """A preset in the list."""

    name: str
    parameters: int
    summary: str


def listing() -> list[Listed]:
    """Every preset, from the cache file of exactly this source code, else computed and cached.

    The file lies beside Python's own cache, under a digest of every source file: a changed line makes another. With
    code of one's own (`--import`) nothing is cached. A cache that cannot be read or written is no error.
    """
    if IMPORTED:
        return _computed()
    file = CACHE / f"presets-{source_digest()}.json"
    with contextlib.suppress(OSError, ConfigError, TypeError):
        return [Listed(*entry) for entry in read_json(file)]
    found = _computed()
    with contextlib.suppress(OSError):
        _write(file, json.dumps(found))
    return found


def source_digest() -> str:
    """Of the paths and bytes of all source files of the project."""
    digest = hashlib.sha256()
    for package in PACKAGES:
        for path in sorted(package.rglob("*.py")):
            digest.update(f"{path.relative_to(package.parent)}\0".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:24]


def _computed() -> list[Listed]:
    from reason.presets import PRESETS

    return [Listed(each.name, each.parameter_count(), each.summary) for each in PRESETS.values()]


def _write(file: Path, text: str) -> None:
    """Put the file in place at once, and remove those of other versions."""
    file.parent.mkdir(exist_ok=True)
    part = file.with_suffix(f".{os.getpid()}")
    part.write_text(text, encoding="utf-8")
    part.replace(file)
    for old in file.parent.glob("presets-*.json"):
        if old != file:
            old.unlink(missing_ok=True)
