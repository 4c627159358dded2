"""Whether a checkpoint fits a training: settings, types and shapes, checked before anything is restored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from numbers import Number
from pathlib import Path
from typing import Any

from torch import Tensor

from reason.config.describe import has_mark
from reason.errors import ConfigError
from reason.settings.base import Mark

VARIES = {"config", "order", "random", "optimizer", "best"}  # in shape, or checked elsewhere


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


def refuse_unlike(saved: Mapping[str, Any], present: Mapping[str, Any], prefix: str = "") -> None:
    """Hold types, shapes and kinds of numbers of a saved state against those of the state that it is to replace.

    Raises:
        ValueError: naming the first part that differs.
        KeyError: naming a part that is missing.
    """
    for key, now in present.items():
        path = f"{prefix}{key}"
        if key in VARIES or (not prefix and key == "carry" and key not in saved):  # left out of an archive
            continue
        was = saved[key]
        if isinstance(now, Mapping) and isinstance(was, Mapping):
            refuse_unlike(was, now, f"{path}.")
        elif isinstance(now, list | tuple) and isinstance(was, list | tuple) and len(now) == len(was):
            for index, (old, new) in enumerate(zip(was, now, strict=True)):
                refuse_unlike({str(index): old}, {str(index): new}, f"{path}.")
        elif _kind(was) != _kind(now):
            raise ValueError(f"{path} is {_kind(was)}, {_kind(now)} is needed")


def _kind(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} of shape {list(value.shape)}"
    if isinstance(value, Number) and not isinstance(value, bool):
        return "a number"
    return type(value).__name__
