"""Folders that are whole or absent: written beside, put in place by a rename, locked while they are written.

.NAME.0123abcd.partial    being written; left behind where a process was killed, and removed by the next one
.NAME.0123abcd.old        on its way out, likewise
NAME/.written.json        which files this project wrote there; a folder that holds others is not replaced
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

from datasets_gen.locks import directory_lock
from reason.errors import ConfigError, has_controls, printable
from reason.files import naming, read_json

LISTING = ".written.json"


@contextlib.contextmanager
def scratch_beside(folder: Path) -> Iterator[Path]:
    """An empty hidden folder beside `folder`, gone at the end; what killed processes left is cleared first."""
    folder = Path(os.path.abspath(folder))  # "." has no name
    folder.parent.mkdir(parents=True, exist_ok=True)
    _clear_leftovers(folder)
    scratch = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.partial")
    scratch.mkdir()
    try:
        with directory_lock(scratch), naming(folder):
            yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@contextlib.contextmanager
def new_path(out: Path, mend: str) -> Iterator[Path]:
    """A path of the same name in a scratch folder; what the block leaves there becomes `out` when it ends well.

    Raises:
        ConfigError: `out` is there already; `mend` says what to do then.
    """
    place = Path(os.path.abspath(out))  # ".." is no name of a file
    if os.path.lexists(place):
        raise ConfigError(f"{out} is there already; {mend}")
    with scratch_beside(place) as scratch:
        yield scratch / place.name
        (scratch / place.name).rename(place)


@contextlib.contextmanager
def replaced_folder(folder: Path, what: str) -> Iterator[Path]:
    """A scratch folder that takes the place of `folder` when the block ends well; `what` it is, in words.

    Raises:
        ConfigError: `folder` holds files that were not written so.
    """
    refuse_other_files(folder, what)
    with scratch_beside(folder) as scratch:
        yield scratch
        (scratch / LISTING).write_text(json.dumps(list(_files(scratch))) + "\n", encoding="utf-8")
        refuse_other_files(folder, what)
        _swap(scratch, folder)


def refuse_other_files(folder: Path, what: str) -> None:
    """Raises ConfigError where `folder` is there and holds anything but what `replaced_folder` wrote."""
    if not os.path.lexists(folder):
        return
    if folder.is_symlink() or not folder.is_dir():
        raise ConfigError(f"{folder} is no folder; name another for {what}")
    ours = _written(folder)
    stranger = next((name for name in _files(folder) if name not in ours), None)
    if stranger is not None:
        raise ConfigError(f"{folder} holds {stranger}, which is no part of {what}; move it, or name another folder")


def _files(folder: Path) -> Iterator[str]:
    """Whatever lies below a folder and is no folder."""
    for root, folders, files in os.walk(folder):
        folders.sort()
        links = [name for name in folders if Path(root, name).is_symlink()]
        yield from (Path(root, name).relative_to(folder).as_posix() for name in sorted((*files, *links)))


def _written(folder: Path) -> set[str]:
    try:
        names = read_json(folder / LISTING)
    except (OSError, ConfigError):
        return set()
    return {LISTING, *(name for name in names if isinstance(name, str))} if isinstance(names, list) else set()


def _swap(scratch: Path, folder: Path) -> None:
    """Put `scratch` where `folder` is, and remove that."""
    folder = Path(os.path.abspath(folder))
    old = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.old")
    with contextlib.suppress(FileNotFoundError):
        folder.rename(old)
    scratch.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def _clear_leftovers(folder: Path) -> None:
    """Remove what processes that were killed left beside `folder`."""
    pattern = re.compile(rf"\.{re.escape(folder.name)}\.[0-9a-f]{{8}}\.(partial|old)")
    for path in folder.parent.iterdir():
        ours = pattern.fullmatch(path.name)
        if ours is None or path.is_symlink() or not path.is_dir():
            continue
        if ours[1] == "old" and not folder.exists():
            path.rename(folder)
            continue
        with contextlib.suppress(BlockingIOError, FileNotFoundError), directory_lock(path):  # else it is at work
            shutil.rmtree(path, ignore_errors=True)


def plain_name(name: str, what: str) -> str:
    """The name, where it names a file in a folder and not a way out of it.

    Raises:
        ConfigError: it is empty, hidden, too long, or holds a separator or a control character.
    """
    too_long = len(os.fsencode(name)) > 200  # beside it lie names that are longer
    if not name or name.startswith(".") or "/" in name or os.sep in name or too_long or has_controls(name):
        raise ConfigError(f"{what}={printable(name[:200])} is no plain folder name")
    return name
