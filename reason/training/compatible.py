"""Whether a checkpoint fits a training: settings and types, checked before anything is restored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from reason.config.describe import has_mark
from reason.errors import ConfigError
from reason.settings.base import Mark


def refuse_other_config(saved: Mapping[str, Any], present: Mapping[str, Any], folder: Path) -> None:
    """Compare the config of a checkpoint with the one to resume with.

    A setting that only one of the two has, because of another version, is no difference.

    Raises:
        ConfigError: naming the first setting that differs, with both values.
    """
    for key, was, now in _differences(saved, present):
        if not has_mark(key, Mark.RESUMABLE):
            raise ConfigError(
                f"{folder} was made with {key}={was}, config.json has {now}: put {was} back, or start another run"
            )


def refuse_other_dtype(saved: str, present: str, folder: Path) -> None:
    """Raises ConfigError if the checkpoint's activations had another type than `present`."""
    if saved != present:
        short = saved.replace("float32, products in ", "amp-").replace("bfloat", "bf").replace("float", "fp")
        raise ConfigError(
            f"{folder} was computed in {saved}, this would go on in {present}; type training.precision={short}"
        )


def _differences(
    saved: Mapping[str, Any], present: Mapping[str, Any], prefix: str = ""
) -> Iterator[tuple[str, Any, Any]]:
    for key in saved.keys() & present.keys():
        was, now = saved[key], present[key]
        if isinstance(was, dict) and isinstance(now, dict):
            yield from _differences(was, now, f"{prefix}{key}.")
        elif was != now:
            yield f"{prefix}{key}", was, now
