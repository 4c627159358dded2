"""What a user can mend: each text says the value, the reason and what to type."""

from __future__ import annotations

import re
import unicodedata


class ConfigError(ValueError):
    """A setting that cannot be: the text says what was got, what is allowed and what to type."""


class Diverged(RuntimeError):
    """A loss or a weight is no longer a number: the text names the step, what broke and the last good checkpoint."""


class RunLost(RuntimeError):
    """The folder that a training writes to was removed or replaced: the text says what is left and how to go on."""


class PartnerLost(RuntimeError):
    """Another process of the same training no longer answers."""


_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def has_controls(text: str, allowed: str = "") -> bool:
    """Whether a text holds characters that a terminal obeys instead of showing them."""
    return any(found not in allowed for found in _CONTROL.findall(text))


def printable(text: object) -> str:
    """The text on one line, with whatever a terminal would obey, or not show, written out: ESC becomes \\x1b."""
    shown = (c if c.isprintable() or unicodedata.category(c) == "Zs" else _written_out(c) for c in str(text))
    return "".join(shown)


def _written_out(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
