"""Descriptions of settings: default, range, meaning, and whether they may change for a trained model."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from reason.config.overrides import Changes, value_text
from reason.config.schema import Config
from reason.errors import ConfigError
from reason.models import FAMILIES
from reason.settings.base import BaseConfig, Mark
from reason.settings.rollout import Halting


class Setting(NamedTuple):
    """A setting of the config."""

    key: str  # section.key
    family: str  # of models that have it; "": every config has it
    default: str  # as typed
    allowed: str  # type and range
    text: str


def describe_settings() -> list[Setting]:
    """Return every setting but `name` and `model.kind`; the models' own, family by family."""
    rows = []
    for key, family, field in _walk(Config):
        if not key.endswith(".") and key not in ("name", "model.kind"):
            default, range_ = field.get_default(call_default_factory=True), _allowed(field.annotation, field.metadata)
            rows.append(Setting(key, family, value_text(default), range_, field.description or ""))
    return rows


def _walk(
    section: type[BaseConfig], prefix: str = "", family: str = "", ends: Mark | None = None
) -> Iterator[tuple[str, str, FieldInfo]]:
    """Yield key, family of models and field of every setting and section ("section."), down to the mark `ends`."""
    for name, field in section.settings().items():
        default = field.get_default(call_default_factory=True)
        inner = [(family, type(default))] if isinstance(default, BaseConfig) else []
        if section is Config and name == "model":
            inner = [(kind, settings) for kind, (settings, _) in FAMILIES.items()]
        key = f"{prefix}{name}." if inner else f"{prefix}{name}"
        yield key, family, field
        for kind, settings in inner if ends not in field.metadata else []:
            yield from _walk(settings, key, kind, ends)


SIGNS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}  # of pydantic's limits


def _allowed(kind: Any, limits: list[Any]) -> str:
    """Return type and range as text: "int ≥ 1", "euler | rk4", "float ≥ 0, < 1"."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        fields = [each.metadata if isinstance(each, FieldInfo) else [each] for each in inner[1:]]
        return _allowed(inner[0], [*limits, *itertools.chain(*fields)])
    if origin is Literal:
        return " | ".join(map(str, inner))
    if origin is Union or type(kind).__name__ == "UnionType":
        return " | ".join("none" if each is type(None) else _allowed(each, limits) for each in inner)
    if origin is tuple:
        items = [_allowed(each, []) for each in inner if each is not Ellipsis]
        return f"[{', '.join(items)}{', …' if Ellipsis in inner else ''}]"
    if kind in (int, float):
        signed = [(sign, getattr(limit, name, None)) for limit in limits for name, sign in SIGNS.items()]
        return f"{kind.__name__} {', '.join(f'{sign} {at:g}' for sign, at in signed if at is not None)}".strip()
    return "true | false" if kind is bool else '{"NAME": …}' if origin is dict else "text"


def keys_of(mark: Mark) -> tuple[str, ...]:
    """Return the settings that have a mark, in the order of the config; a section that has it is "section."."""
    return tuple(dict.fromkeys(key for key, _, field in _walk(Config, ends=mark) if mark in field.metadata))


def has_mark(key: str, mark: Mark) -> bool:
    """Return whether a setting or a section, or a section around it, has a mark."""
    return any(f"{key}.".startswith(f"{known.removesuffix('.')}.") for known in keys_of(mark))


def halting_read(config: Config) -> Halting | None:
    """Return the halting rule that evaluation uses for a run, or None if no loss term trains the head."""
    return config.rollout.halting if config.loss.trains("q_halt") else None


def idle(config: Config) -> dict[str, str]:
    """Return {"section.key": why} for settings without effect on a trained model."""
    return config.idle | {"model.noise": "it is only added in training"}


def idle_lines(changes: Changes, idle: Mapping[str, str], where: str) -> list[str]:
    """Return a line with the reason for every changed setting without effect there."""
    return [
        f"{key}={value_text(changes[key])} changes nothing in {where}: {idle[key]}" for key in changes if key in idle
    ]


def refuse_unreadable(settings: Iterable[str]) -> None:
    """Raise ConfigError for a setting that cannot change for a trained model."""
    refused = [key for key in settings if not has_mark(key, Mark.READABLE)]
    if refused:
        raise ConfigError(
            f"{refused[0]} cannot change for a trained model; what can: {', '.join(keys_of(Mark.READABLE))}"
        )
