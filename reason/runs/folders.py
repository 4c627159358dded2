"""Folders that are complete or absent: written under a hidden name, then renamed.

.NAME.0123abcd.partial    being written; left behind by a process that was killed, removed by a later one
NAME/.written.json        which files this project wrote there; a folder that holds others is not replaced
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

from reason.errors import ConfigError, has_controls, printable
from reason.files import published, read_json

LISTING = ".written.json"


@contextlib.contextmanager
def new_path(out: Path, fix: str) -> Iterator[Path]:
    """Yield a path, as `published`. Raises ConfigError, whose text ends with `fix`, if `out` exists."""
    if os.path.lexists(os.path.abspath(out)):  # ".." does not name a file
        raise ConfigError(f"{out} is there already; {fix}")
    with published(out) as path:
        yield path


@contextlib.contextmanager
def replaced_folder(folder: Path, what: str) -> Iterator[Path]:
    """Yield a scratch folder that replaces `folder` if the block succeeds; `what`: its description in words.

    Raises ConfigError if `folder` holds files that this function did not write.
    """
    refuse_other_files(folder, what)
    with published(folder, replace=True) as new:
        new.mkdir()
        yield new
        (new / LISTING).write_text(json.dumps(list(_files(new))) + "\n", encoding="utf-8")


def refuse_other_files(folder: Path, what: str) -> None:
    """Raise ConfigError if `folder` holds anything that `replaced_folder` did not write."""
    if not os.path.lexists(folder):
        return
    if folder.is_symlink() or not folder.is_dir():
        raise ConfigError(f"{folder} is not a folder; name another for {what}")
    ours = _written(folder)
    stranger = next((name for name in _files(folder) if name not in ours), None)
    if stranger is not None:
        raise ConfigError(f"{folder} holds {stranger}, which is not a part of {what}; move it, or name another folder")


def _files(folder: Path) -> Iterator[str]:
    """Yield every file below a folder, and every link."""
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not path.is_dir():
            yield path.relative_to(folder).as_posix()


def _written(folder: Path) -> set[str]:
    try:
        return {LISTING, *read_json(folder / LISTING)}
    except (OSError, ConfigError, TypeError):
        return set()


def plain_name(name: str, what: str) -> str:
    """Return the name. Raises ConfigError if it is empty, hidden or too long, or has a path separator."""
    too_long = len(os.fsencode(name)) > 200  # files next to it have longer names
    if not name or name.startswith(".") or "/" in name or os.sep in name or too_long or has_controls(name):
        raise ConfigError(f"{what}={printable(name[:200])} is not a plain folder name")
    return name
