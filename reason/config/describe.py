"""Every setting of a config: its default, what it may be, and what it means."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from reason.config.overrides import value_text
from reason.config.schema import Config
from reason.models import FAMILIES
from reason.settings.base import BaseConfig


class Setting(NamedTuple):
    """One leaf of the config."""

    key: str  # section.key
    family: str  # of models that have it; "": every config has it
    default: str  # as typed
    allowed: str  # type and range
    text: str


def describe_settings() -> list[Setting]:
    """Every setting but `name` and `model.kind`; the models' own, family by family."""
    return [row for row in _settings(Config, "", "") if row.key not in ("name", "model.kind")]


def _settings(section: type[BaseConfig], prefix: str, family: str) -> Iterator[Setting]:
    for name, field in section.settings().items():
        default = field.get_default(call_default_factory=True)
        if section is Config and name == "model":
            for kind, (settings, _) in FAMILIES.items():
                yield from _settings(settings, "model.", kind)
        elif isinstance(default, BaseConfig):
            yield from _settings(type(default), f"{prefix}{name}.", family)
        else:
            yield Setting(f"{prefix}{name}", family, value_text(default), allowed(field), field.description or "")


def allowed(field: FieldInfo) -> str:
    """Type and range of a field: "int ≥ 1", "euler | rk4", "0 ≤ float < 1"."""
    return _allowed(field.annotation, field.metadata)


def _allowed(kind: Any, limits: list[Any]) -> str:
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        named = [limit for each in inner[1:] for limit in (each.metadata if isinstance(each, FieldInfo) else [each])]
        return _allowed(inner[0], [*limits, *named])
    if origin is Literal:
        return " | ".join(map(str, inner))
    if origin is Union or type(kind).__name__ == "UnionType":
        return " | ".join("none" if each is type(None) else _allowed(each, limits) for each in inner)
    if origin is tuple:
        items = [_allowed(each, []) for each in inner if each is not Ellipsis]
        return f"[{', '.join(items)}{', …' if Ellipsis in inner else ''}]"
    if origin is dict:
        return '{"NAME": …}'
    if kind is bool:
        return "true | false"
    return _bounded(kind.__name__, limits) if kind in (int, float) else "text"


def _bounded(name: str, limits: list[Any]) -> str:
    signs = ("ge", "gt", "le", "lt")
    bound = {sign: getattr(limit, sign) for limit in limits for sign in signs if hasattr(limit, sign)}
    below = next((f"{bound[sign]:g} {symbol} " for sign, symbol in (("ge", "≤"), ("gt", "<")) if sign in bound), "")
    above = next((f" {symbol} {bound[sign]:g}" for sign, symbol in (("le", "≤"), ("lt", "<")) if sign in bound), "")
    if below and not above:
        return f"{name} {'≥' if 'ge' in bound else '>'} {below.split()[0]}"
    return f"{below}{name}{above}"
