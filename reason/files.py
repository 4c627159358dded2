"""Load untrusted small files of a bounded size, and write files completely or not at all."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from datasets_gen.scratch import published as published
from reason.errors import ConfigError

LIMIT = 64_000_000  # bytes; tensors are in other files


def read_text(path: Path, limit: int = LIMIT) -> str:
    """Return the UTF-8 text of a file.

    Raises:
        FileNotFoundError: there is none.
        ConfigError: it is larger than `limit` bytes, or not UTF-8.
    """
    size = path.stat().st_size
    if size > limit:
        raise ConfigError(f"{path} is {size:,} bytes large, {limit:,} at most are read; it is not what its name says")
    return decoded(path.read_bytes(), str(path))


def decoded(content: bytes, name: str) -> str:
    """Decode UTF-8 bytes to lines that end in a newline. Raises ConfigError with `name` for other bytes."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{name} is not UTF-8 text ({error.reason} at byte {error.start}); save it as UTF-8, or copy it again"
        ) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_json(path: Path) -> Any:
    """Return the JSON value in a file.

    Raises:
        FileNotFoundError: there is none.
        ConfigError: as `read_text`, or it is not JSON.
    """
    text = read_text(path)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:  # RecursionError if it is nested too deep
        raise ConfigError(f"{path} is not JSON ({error}); copy it again") from None


def kept_in(folder: Path, name: str) -> Path:
    """Return `folder` of the package if it is writable, else a folder in the user's cache."""
    if os.access(folder if folder.is_dir() else folder.parent, os.W_OK):
        return folder
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "reason" / name


def readable_size(size: float) -> str:
    """Format a number of bytes: 1_500_000 -> '1.5 MB'."""
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.2f} GB"
