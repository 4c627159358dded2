"""Settings that cannot change a trained number in a config, each with the reason: what `train.py` says of them."""

from __future__ import annotations

from collections.abc import Iterator

import reason.settings.capabilities as can
from reason.config.overrides import leaves
from reason.config.schema import Config
from reason.settings.base import BaseConfig


def inert(config: Config) -> dict[str, str]:
    """{"section.key": why} for every setting that this config ignores in training, whatever value it has.

    A loss weight under a balancer is one as long as it is not 0.
    """
    there = can.counted(section.capabilities() for section in config.sections)
    found: dict[str, str] = {}
    for prefix, section in _nested(config, ""):
        reasons = {key: f"needs {wanted}" for key, wanted in section.used_with().items() if not there[wanted]}
        for key, why in (reasons | section.inert()).items():
            inner = getattr(section, key, None) if "." not in key else None
            keys = (
                leaves(inner.model_dump(), f"{prefix}{key}.") if isinstance(inner, BaseConfig) else [f"{prefix}{key}"]
            )
            found |= dict.fromkeys(keys, why)
    return found


def _nested(section: BaseConfig, prefix: str) -> Iterator[tuple[str, BaseConfig]]:
    """The section and those within it, each with its prefix, inner ones first: an outer reason stands above theirs."""
    for name, value in section:
        if isinstance(value, BaseConfig):
            yield from _nested(value, f"{prefix}{name}.")
    yield prefix, section
