"""Reading small files that anyone may have written, of a bounded size, and writing files whole or not at all."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reason.errors import ConfigError

LIMIT = 64_000_000  # bytes; tensors have files of their own


def read_text(path: Path, limit: int = LIMIT) -> str:
    """The UTF-8 text of a file.

    Raises:
        FileNotFoundError: there is none.
        ConfigError: it is larger than `limit` bytes, or not UTF-8.
    """
    size = path.stat().st_size
    if size > limit:
        raise ConfigError(f"{path} is {size:,} bytes large, {limit:,} at most are read; it is not what its name says")
    return decoded(path.read_bytes(), str(path))


def decoded(content: bytes, name: str) -> str:
    """The UTF-8 text of bytes, its lines ended by a newline; `name` is what the ConfigError calls other bytes."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{name} is not UTF-8 text ({error.reason} at byte {error.start}); save it as UTF-8, or copy it again"
        ) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_json(path: Path) -> Any:
    """The JSON value in a file.

    Raises:
        FileNotFoundError: there is none.
        ConfigError: as `read_text`, or it is not JSON.
    """
    text = read_text(path)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:  # the latter where it is nested too deep
        raise ConfigError(f"{path} is not JSON ({error}); copy it again") from None


@contextlib.contextmanager
def written_beside(path: Path) -> Iterator[Path]:
    """A file to write next to `path`, which takes its place where the block ends well and is removed where it fails."""
    part = path.with_name(f".{path.name}.partial")
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def kept_in(folder: Path, name: str) -> Path:
    """`folder` of the package where it can be written, else one of the user's cache."""
    if os.access(folder if folder.is_dir() else folder.parent, os.W_OK):
        return folder
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "reason" / name


def readable_size(size: float) -> str:
    """1_500_000 -> '1.5 MB'."""
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.2f} GB"
