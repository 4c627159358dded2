"""The base class of every section of a config."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import InitErrorDetails

from reason.errors import ConfigError, has_controls, printable

PLAIN = r"^\w[\w.-]{0,99}$"  # the name of a folder, and no way out of it


class Mark(Enum):
    """What may be done with a setting that has been trained with."""

    RESUMABLE = "another value when a run is resumed: the same numbers are computed, up to rounding"
    READABLE = "another value when a trained model is read"
    OUTSIDE = "no number that training ends with depends on it"


Value = TypeVar("Value")
Resumable = Annotated[Value, Mark.RESUMABLE]  # as in `backend: Resumable[str] = Field(…)`; of a section: all within it
Readable = Annotated[Value, Mark.READABLE]
Outside = Annotated[Value, Mark.RESUMABLE, Mark.OUTSIDE]


class When:
    """Field metadata: the setting changes a number only where another one of its section has one of these values."""

    def __init__(self, setting: str, *values: object):
        self.setting, self.values = setting, values

    def holds(self, section: BaseConfig) -> bool:
        """Whether the other setting has such a value."""
        return getattr(section, self.setting) in self.values


class Unless(When):
    """Field metadata: the setting changes a number only where another one of its section has none of these values."""

    def holds(self, section: BaseConfig) -> bool:
        """Whether the other setting has another value."""
        return getattr(section, self.setting) not in self.values


class Need(NamedTuple):
    """What a setting asks of the rest of a config."""

    met: bool
    what: str
    mend: str = ""  # what to type to have it


def require(met: bool, setting: str, what: str, *mends: str) -> None:
    """Raise ConfigError unless a need of a setting is met: `section.key=value` needs `what`; type one of `mends`."""
    if not met:
        raise ConfigError(f"{setting} needs {what}, which this config lacks: type {', or '.join(filter(None, mends))}")


def bounded(value: Value) -> Value:
    """A value that can be stored and printed.

    Raises:
        ValueError: what of it cannot.
    """
    if isinstance(value, int) and abs(value) >= 2**63:
        raise ValueError("a whole number of at most 63 bits is needed")
    if isinstance(value, str) and has_controls(value):
        raise ValueError(f"{printable(value)} holds control characters; leave them out")
    return value


class BaseConfig(BaseModel):
    """A pydantic model: immutable, unknown keys refused, no inf or NaN."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False)

    @field_validator("*")
    @classmethod
    def _bounded(cls, value: Any) -> Any:
        return bounded(value)

    @classmethod
    def settings(cls) -> Mapping[str, FieldInfo]:
        """Every setting by its name."""
        return cls.model_fields

    @property
    def idle(self) -> dict[str, str]:
        """Own settings that change no number, each with the other setting that makes it so (`When`, `Unless`)."""
        marks = ((key, mark) for key, field in type(self).settings().items() for mark in field.metadata)
        idle = ((key, mark) for key, mark in marks if isinstance(mark, When) and not mark.holds(self))
        return {key: f"{mark.setting}={getattr(self, mark.setting)}" for key, mark in idle}


class TabledConfig(BaseConfig):
    """A section some of whose settings are the entries of a table, to which extensions and own files may add."""

    model_config = ConfigDict(extra="allow")

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """The value of a setting of the table."""

    @classmethod
    def entries(cls) -> Mapping[str, Any]:
        """The table."""
        raise NotImplementedError

    @classmethod
    def fields_of(cls, entries: Mapping[str, Any]) -> dict[str, FieldInfo]:
        """The settings of the table's entries by their names."""
        raise NotImplementedError

    @classmethod
    def table(cls) -> dict[str, FieldInfo]:
        """The settings of the table's entries, as it is now."""
        return _tabled(cls).fields

    @classmethod
    def settings(cls) -> dict[str, FieldInfo]:
        """The settings of the class, then those of the table."""
        return {**cls.model_fields, **cls.table()}

    @model_validator(mode="before")
    @classmethod
    def _of_the_table(cls, given: Any, info: ValidationInfo) -> Any:
        if not isinstance(given, dict):
            return given
        tabled, strict = _tabled(cls), (info.context or {}).get("strict")
        strangers = [key for key in given if key not in cls.model_fields and key not in tabled.fields]
        errors = [_error("extra_forbidden", (key,), given[key]) for key in strangers]
        whole = {key: value for key, value in given.items() if key in cls.model_fields}
        for key, field in tabled.fields.items():
            if key not in given:
                whole[key] = field.get_default(call_default_factory=True)
                continue
            try:
                whole[key] = tabled.read[key].validate_python(given[key], strict=strict, context=info.context)
            except ValidationError as error:
                found = error.errors()
                errors += [_error(each["type"], (key, *each["loc"]), each["input"], each.get("ctx")) for each in found]
        if errors:
            raise ValidationError.from_exception_data(cls.__name__, errors)
        return whole


class Tabled(NamedTuple):
    """A table as it was when its settings were last made."""

    entries: dict[str, Any]
    fields: dict[str, FieldInfo]
    read: dict[str, TypeAdapter[Any]]


_TABLED: dict[type[TabledConfig], Tabled] = {}  # making the settings takes milliseconds, and tables hardly change


def _tabled(section: type[TabledConfig]) -> Tabled:
    known, entries = _TABLED.get(section), dict(section.entries())
    if known is None or known.entries != entries or list(known.entries) != list(entries):
        fields = section.fields_of(entries)
        kinds: dict[str, Any] = {
            key: Annotated[field.annotation, field, AfterValidator(bounded)] for key, field in fields.items()
        }
        known = Tabled(entries, fields, {key: TypeAdapter(kind) for key, kind in kinds.items()})
        _TABLED[section] = known
    return known


def _error(kind: str, place: tuple[Any, ...], value: Any, about: Any = None) -> InitErrorDetails:
    return InitErrorDetails(type=kind, loc=place, input=value, ctx=about or {})
