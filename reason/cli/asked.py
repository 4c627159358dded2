"""The trained run that a command names."""

from __future__ import annotations

import shlex
from pathlib import Path

from reason.config.overrides import override, read_config
from reason.config.schema import Config
from reason.errors import ConfigError
from reason.pretrained import find_run
from reason.runs.archive import is_archive
from reason.runs.reading import refuse_unreadable


def asked_run(name: str, pairs: dict[str, str]) -> tuple[Path, Config]:
    """The folder of a trained run, and its config with the settings that were typed.

    Raises:
        ConfigError: there is no such run, it is an archive, or a setting cannot change for a trained model.
    """
    run = find_run(name)
    if run.is_file() and is_archive(run):
        raise ConfigError(
            f"{run} is an archive: type mkdir DIR && tar xzf {shlex.quote(str(run))} -C DIR, then name DIR"
        )
    config = override(read_config(run / "config.json"), pairs)
    refuse_unreadable(pairs)
    return run, config
