"""Reading small files that anyone may have written: regular files of a bounded size, JSON of a bounded depth."""

from __future__ import annotations

import contextlib
import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from reason.errors import ConfigError

LIMIT = 64_000_000  # bytes; tensors lie in files of their own


def read_text(path: Path, limit: int = LIMIT) -> str:
    """The UTF-8 text of a regular file.

    Raises:
        FileNotFoundError: there is none.
        ConfigError: it is a folder, a FIFO or a device, larger than `limit` bytes, or not UTF-8.
    """
    refuse_irregular(path)
    size = path.stat().st_size
    if size > limit:
        raise ConfigError(f"{path} is {size:,} bytes large, {limit:,} at most are read; it is not what its name says")
    return _decoded(path.read_bytes(), str(path))


def read_stream(stream: BinaryIO, name: str, limit: int = LIMIT) -> str:
    """The UTF-8 text of a stream up to its end; `name` is what errors call it.

    Raises:
        ConfigError: it is longer than `limit` bytes, or not UTF-8.
    """
    content = stream.read(limit + 1)
    if len(content) > limit:
        raise ConfigError(f"{name} holds more than {limit:,} bytes, which are not read; name a file")
    return _decoded(content, name)


def _decoded(content: bytes, name: str) -> str:
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{name} is no UTF-8 text ({error.reason} at byte {error.start}); save it as UTF-8, or copy it again"
        ) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_json(path: Path, limit: int = LIMIT) -> Any:
    """The JSON value in a regular file.

    Raises:
        FileNotFoundError: there is none.
        ConfigError: as `read_text`, or it is not JSON, or nested too deep.
    """
    text = read_text(path, limit)
    try:
        return json.loads(text)
    except RecursionError:
        raise ConfigError(f"{path} is nested too deep to be read; it is not what its name says") from None
    except ValueError as error:
        raise ConfigError(f"{path} is not JSON ({error}); copy it again") from None


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """An OSError of the block that names no file, as of a write to a full disk, names `path`."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


@contextlib.contextmanager
def written_beside(path: Path) -> Iterator[Path]:
    """A file to write beside `path`, which takes its place where the block ends well and is removed where it fails."""
    part = path.with_name(f".{path.name}.partial")
    try:
        with naming(path):
            yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def refuse_irregular(path: Path) -> None:
    """Raises ConfigError for a folder, FIFO, socket or device, which would block or never end; FileNotFoundError."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise ConfigError(f"{path} is no regular file; put the file of that name back")


def readable_size(size: float) -> str:
    """1_500_000 -> '1.5 MB'."""
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.2f} GB"
