"""Errors that a user can correct: each text says the value, the reason and what to type."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import ValidationError


class ConfigError(ValueError):
    """An invalid setting or argument: the text says what was got, what is allowed and what to type."""


class Diverged(RuntimeError):
    """A loss or a weight is NaN or infinite: the text names the step, what broke and the last good checkpoint."""


class PartnerLost(RuntimeError):
    """Another process of the same training no longer answers."""


def first_fault(error: ValidationError) -> tuple[str, str, Any]:
    """Of the first fault that pydantic found "section.key" ("" for the whole), what it is, and the value."""
    first = error.errors()[0]
    what = first["msg"].removeprefix("Value error, ")
    return ".".join(map(str, first["loc"])), what[:1].lower() + what[1:], first["input"]


_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def has_controls(text: str, allowed: str = "") -> bool:
    """Whether a text holds control characters, which a terminal executes."""
    return any(found not in allowed for found in _CONTROL.findall(text))


def printable(text: object) -> str:
    """The text on one line, characters that a terminal executes or does not show escaped: ESC becomes \\x1b."""
    return "".join(
        c if c.isprintable() or unicodedata.category(c) == "Zs" else c.encode("unicode_escape").decode("ascii")
        for c in str(text)
    )
