"""Text and JSON files; anything else is refused in one line that says how to mend it."""

from __future__ import annotations

import codecs
import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

NAME = re.compile(r"\w[\w.+ -]*")
TOO_DEEP = "JSON that is nested too deeply"


class DatasetError(ValueError):
    """A puzzle set, or a request for one, that breaks a rule; the text says where, why and what mends it."""


def check_name(name: str, what: str) -> None:
    """Refuse a name that cannot be part of a file's name.

    Raises:
        DatasetError: it is a path, empty, or holds other characters.
    """
    if not NAME.fullmatch(name):
        raise DatasetError(f"{what} {name!r} is no name; give letters, digits and . _ + - (no path)")


@contextlib.contextmanager
def text_file(path: Path) -> Iterator[IO[str]]:
    """A UTF-8 file to read, line ends as they are, a byte order mark skipped.

    Raises:
        DatasetError: there is none, or it is not UTF-8; the text names the first faulty line.
    """
    if not path.is_file():
        raise DatasetError(f"no file {path}; give the path of a local file")
    with path.open("rb") as raw:
        if b"\0" in raw.read(64):
            raise DatasetError(
                f"{path}, line 1: zero bytes, as UTF-16 has them; save it as UTF-8 (iconv -f UTF-16 -t UTF-8)"
            )
    with path.open(encoding="utf-8-sig", newline="") as file:
        try:
            yield file
        except UnicodeDecodeError:
            raise DatasetError(_no_utf8(path)) from None


def begins_with_mark(path: Path) -> bool:
    """Whether a UTF-8 byte order mark opens the file."""
    with path.open("rb") as file:
        return file.read(3) == codecs.BOM_UTF8


def _no_utf8(path: Path) -> str:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode()
            except UnicodeDecodeError as error:
                return (
                    f"{path}, line {number}: byte 0x{line[error.start]:02x} is not UTF-8; "
                    f"save the file as UTF-8 (iconv -f LATIN1 -t UTF-8, if it is Latin-1)"
                )
    return f"{path} is not UTF-8; save the file as UTF-8"


def read_json(path: Path) -> Any:
    """The content of a JSON file.

    Raises:
        DatasetError: there is none, it is not UTF-8, no JSON, or an object with the same name twice.
    """
    with text_file(path) as file:
        try:
            return json.load(file, object_pairs_hook=distinct)
        except RecursionError:
            raise DatasetError(f"{path} holds {TOO_DEEP}") from None
        except json.JSONDecodeError as error:
            raise DatasetError(f"{path}, line {error.lineno}, column {error.colno}: no JSON ({error.msg})") from None
        except UnicodeDecodeError:
            raise
        except ValueError as error:
            raise DatasetError(f"{path}: {error}") from None


def brief(value: Any) -> str:
    """A value of a JSON file for an error's text: short, and never nested."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    return repr(value) if len(repr(value)) <= 50 else f"{repr(value)[:50]}…"


def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object from its pairs, for `json.load`.

    Raises:
        ValueError: a name stands twice.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} stands twice in one object")
    return found
