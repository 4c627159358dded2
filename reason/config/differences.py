"""Which settings set configs apart."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from reason.config.describe import has_mark
from reason.config.overrides import leaves
from reason.config.schema import Config
from reason.settings.base import Mark

LONGEST = 60  # characters of a run's name that its settings take
PATHS = ("data.directory", "init_from")
VAGUE = ("auto", "none", "all", "same")  # values that say nothing without their key


def differing(trees: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """{"section.key": its value in each config} of settings that differ; ... where a config lacks one."""
    flat = [leaves(dict(tree)) for tree in trees]
    keys = dict.fromkeys(key for one in flat for key in one)
    values = {key: [one.get(key, ...) for one in flat] for key in keys}
    return {key: found for key, found in values.items() if any(value != found[0] for value in found)}


def run_name(base: Config, asked: Config) -> str:
    """The name of a run without one: its preset's, and the settings that differ from it: sudoku-6x6.tanh.l_cycles6.

    Letters, digits, '.', '_' and '-' alone; settings beyond `LONGEST` characters are counted: sudoku-6x6.tanh.3-more.
    """
    parts = []
    for key, (was, now) in differing([base.model_dump(mode="json"), asked.model_dump(mode="json")]).items():
        text = _short(key, now)
        if not has_mark(key, Mark.OUTSIDE) and not (key in PATHS and text == _short(key, was)):
            parts.append(text)
    for kept in range(len(parts), -1, -1):
        shown = parts[:kept] + ([f"{len(parts) - kept}-more"] if kept < len(parts) else [])
        if len(".".join(shown)) <= LONGEST:
            break
    return ".".join([asked.name, *shown])


def _short(key: str, value: Any) -> str:
    """A setting in a file's name: a word by itself, a number behind its key."""
    last = key.rpartition(".")[2]
    match value:
        case None | False:
            text = f"no-{last}"
        case int() if value is not True:
            text = f"{last}{value}"
        case float():
            text = f"{last}{value:g}"
        case str() if key in PATHS:
            text = "-".join(PurePath(path.strip()).name for path in value.split(","))
        case str() if value not in VAGUE:
            text = value
        case str():
            text = f"{last}-{value}"
        case _:
            text = last
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.") or last
