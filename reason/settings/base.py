"""The base class of every section of a config."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import Enum
from typing import Annotated, Any, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict
from pydantic.fields import FieldInfo

from reason.errors import ConfigError

PLAIN = r"^\w[\w.-]{0,99}$"  # a plain folder name without path separators


class Mark(Enum):
    """When a setting may differ from its value in training."""

    RESUMABLE = "may change when a run is resumed: results change only by rounding"
    READABLE = "may change when a trained model is evaluated"
    OUTSIDE = "does not affect training results"


Value = TypeVar("Value")
Resumable = Annotated[Value, Mark.RESUMABLE]  # as in `backend: Resumable[str] = Field(…)`; of a section: all within it
Readable = Annotated[Value, Mark.READABLE]
Outside = Annotated[Value, Mark.RESUMABLE, Mark.OUTSIDE]


class When:
    """Field metadata: the setting has an effect only if another of its section has one of these values, or is set."""

    def __init__(self, setting: str, *values: object):
        self.setting, self.values = setting, values

    def holds(self, section: BaseConfig) -> bool:
        """Return whether the setting has an effect."""
        value = getattr(section, self.setting)
        return value in self.values if self.values else bool(value)


class Need(NamedTuple):
    """A requirement of a setting on the rest of a config."""

    met: bool
    what: str
    fix: str = ""  # the setting to type


def require(met: bool, setting: str, what: str, *fixes: str) -> None:
    """Raise ConfigError unless a need of a setting is met: `section.key=value` needs `what`; type one of `fixes`."""
    if not met:
        raise ConfigError(f"{setting} needs {what}, which this config lacks: type {', or '.join(filter(None, fixes))}")


class BaseConfig(BaseModel):
    """A pydantic model: immutable, unknown keys refused, no inf or NaN."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False)

    @classmethod
    def settings(cls) -> Mapping[str, FieldInfo]:
        """Return every setting by its name."""
        return cls.model_fields

    @property
    def idle(self) -> dict[str, str]:
        """Settings without effect, each with the other setting that is the reason (`When`)."""
        marks = ((key, mark) for key, field in type(self).settings().items() for mark in field.metadata)
        idle = ((key, mark) for key, mark in marks if isinstance(mark, When) and not mark.holds(self))
        inner = ((name, section.idle) for name, section in self if isinstance(section, BaseConfig))
        within = {f"{name}.{key}": f"{name}.{why}" for name, idle in inner for key, why in idle.items()}
        return within | {key: f"{mark.setting}={value_text(getattr(self, mark.setting))}" for key, mark in idle}


def value_text(value: object) -> str:
    """Return a value as it is typed after `key=`."""
    match value:
        case None:
            return "none"
        case str():
            return value
        case (str(), *_):
            return ",".join(map(str, value))
        case float():
            return short if float(short := f"{value:g}") == value else repr(value)
        case _:
            return json.dumps(value, separators=(",", ":"))


def leaves(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return {"section.key": value} for every leaf of a config's tree."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        flat |= leaves(value, f"{prefix}{key}.") if isinstance(value, dict) and value else {f"{prefix}{key}": value}
    return flat
