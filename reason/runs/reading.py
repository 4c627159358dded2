"""How a trained model is read: its halting head, and the settings that may change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from reason.config.describe import has_mark, keys_of
from reason.config.overrides import Changes, value_text
from reason.config.schema import Config
from reason.errors import ConfigError
from reason.rollout import Halting
from reason.settings.base import Mark


def halting_read(config: Config) -> Halting | None:
    """How the halting head of a run is read; None: no loss term trains it."""
    return config.rollout.halting if config.loss.trains("q_halt") else None


def idle(config: Config) -> dict[str, str]:
    """{"section.key": why} for settings that change no number of a trained model."""
    return config.idle | {"model.noise": "it is only added in training"}


def idle_lines(changes: Changes, idle: Mapping[str, str], where: str) -> list[str]:
    """A line for every changed setting that changes no number there, with the reason."""
    return [
        f"{key}={value_text(changes[key])} changes nothing in {where}: {idle[key]}" for key in changes if key in idle
    ]


def refuse_unreadable(settings: Iterable[str]) -> None:
    """Raises ConfigError for a setting that cannot change for a trained model."""
    refused = [key for key in settings if not has_mark(key, Mark.READABLE)]
    if refused:
        raise ConfigError(
            f"{refused[0]} cannot change for a trained model; what can: {', '.join(keys_of(Mark.READABLE))}"
        )
