"""The base class of every section of a config."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, field_validator
from pydantic.fields import FieldInfo

from reason.errors import has_controls, printable
from reason.settings.capabilities import Capability, Need, Offers

PLAIN = r"^\w[\w.-]{0,99}$"  # the name of a folder, and no way out of it


class Mark(Enum):
    """What may be done with a setting that has been trained with."""

    RESUMABLE = "another value when a run is resumed: the same numbers are computed, up to rounding"
    READABLE = "another value when a trained model is read"
    OUTSIDE = "no number that training ends with depends on it"
    AUTO = "what auto comes to on this machine is recorded"


Value = TypeVar("Value")
Resumable = Annotated[Value, Mark.RESUMABLE]  # as in `backend: Resumable[str] = Field(…)`; of a section: all within it
Readable = Annotated[Value, Mark.READABLE]
Outside = Annotated[Value, Mark.RESUMABLE, Mark.OUTSIDE]
Automatic = Annotated[Value, Mark.RESUMABLE, Mark.AUTO]


class Elsewhere(str):
    """What a setting is for that changes no trained number: nothing to warn of."""


class When:
    """Field metadata: the setting changes a trained number only where another one of its section has such a value."""

    def __init__(self, setting: str, *values: object):
        self.setting, self.values = setting, values


class With:
    """Field metadata: the setting changes a trained number only where some section has the capability."""

    def __init__(self, capability: Capability):
        self.capability = capability


class BaseConfig(BaseModel):
    """A pydantic model: immutable, unknown keys refused, no inf or NaN; it states what it has and what it needs."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False)

    @field_validator("*")
    @classmethod
    def _bounded(cls, value: Any) -> Any:
        if isinstance(value, int) and abs(value) >= 2**63:
            raise ValueError("a whole number of at most 63 bits is needed")
        if isinstance(value, str) and has_controls(value):
            raise ValueError(f"{printable(value)} holds control characters; leave them out")
        return value

    @classmethod
    def settings(cls) -> Mapping[str, FieldInfo]:
        """Every setting by its name."""
        return cls.model_fields

    def capabilities(self) -> Offers:
        """What other sections may rely on."""
        return {}

    def has(self, capability: Capability) -> bool:
        """Whether the section itself has it."""
        offered = self.capabilities().get(capability, 0)
        return not isinstance(offered, str) and offered > 0

    def needs(self) -> Iterable[Need]:
        """What it asks of other sections."""
        return ()

    def unused(self) -> dict[str, str]:
        """Own settings and subsections that change no trained number, each with why; those marked `When` come by it."""
        return {}

    def used_with(self) -> dict[str, Capability]:
        """Own settings that need a capability and have no Field of their own to be marked `With`."""
        return {}

    def per_process(self) -> Iterable[str]:
        """What each of several processes does by itself, so that their loss curve differs from that of one process."""
        return ()
