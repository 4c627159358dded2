"""Errors that a user can correct: each text says the value, the reason and what to type."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import ValidationError


class ConfigError(ValueError):
    """An invalid setting or argument: the text says what was given, what is allowed and what to type."""


class Diverged(RuntimeError):
    """A loss or a weight is NaN or infinite: the text names the step, the tensor and the last good checkpoint."""


class PartnerLost(RuntimeError):
    """Another process of the same training no longer answers."""


def first_fault(error: ValidationError) -> tuple[str, str, Any]:
    """Return the key of pydantic's first fault ("section.key", "" for the whole), its message, and the value."""
    first = error.errors()[0]
    what = first["msg"].removeprefix("Value error, ")
    return ".".join(map(str, first["loc"])), what[:1].lower() + what[1:], first["input"]


def has_controls(text: str, allowed: str = "") -> bool:
    """Return whether a text holds control characters, which a terminal executes."""
    return any(unicodedata.category(each) == "Cc" and each not in allowed for each in text)


def printable(text: object) -> str:
    """Return the text on one line; control and invisible characters are escaped: ESC becomes \\x1b."""
    return "".join(
        c if c.isprintable() or unicodedata.category(c) == "Zs" else c.encode("unicode_escape").decode("ascii")
        for c in str(text)
    )
