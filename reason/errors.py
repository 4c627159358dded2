"""Errors that a user can correct: each text says the value, the reason and what to type."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pydantic import ValidationError


class ConfigError(ValueError):
    """An invalid setting or argument: the text says what was got, what is allowed and what to type."""


class Diverged(RuntimeError):
    """A loss or a weight is NaN or infinite: the text names the step, what broke and the last good checkpoint."""


class PartnerLost(RuntimeError):
    """Another process of the same training no longer answers."""


class Fault(NamedTuple):
    """What a schema objects to in one entry."""

    where: str  # "section.key"; "" for the whole
    what: str  # in words that begin small
    value: Any


def first_fault(error: ValidationError) -> Fault:
    """The first of the faults that pydantic found."""
    first = error.errors()[0]
    what = first["msg"].removeprefix("Value error, ")
    return Fault(".".join(map(str, first["loc"])), what[:1].lower() + what[1:], first["input"])


_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def has_controls(text: str, allowed: str = "") -> bool:
    """Whether a text holds control characters, which a terminal executes."""
    return any(found not in allowed for found in _CONTROL.findall(text))


def printable(text: object) -> str:
    """The text on one line, characters that a terminal executes or does not show escaped: ESC becomes \\x1b."""
    shown = (c if c.isprintable() or unicodedata.category(c) == "Zs" else _escaped(c) for c in str(text))
    return "".join(shown)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
