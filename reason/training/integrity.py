"""SHA-256 of every file of a checkpoint: written last, held against the files before anything is read from them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from reason.errors import ConfigError
from reason.files import read_json, refuse_irregular

MANIFEST = "manifest.json"
NEEDED = ("weights.safetensors", "state.safetensors", "state.json")
FILES = (*NEEDED, "ema.safetensors")


def sha256(path: Path) -> str:
    """Of a file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def seal(folder: Path) -> None:
    """Write the manifest of a checkpoint folder: {file: SHA-256}."""
    sums = {name: sha256(folder / name) for name in FILES if (folder / name).exists()}
    (folder / MANIFEST).write_text(json.dumps(sums, indent=1) + "\n", encoding="utf-8")


def fault(folder: Path) -> str | None:
    """What keeps a checkpoint's files from being those that were sealed; None: they are."""
    try:
        sums = read_json(folder / MANIFEST)
        if not isinstance(sums, dict) or not set(NEEDED) <= sums.keys() <= set(FILES):
            return f"{MANIFEST} does not list its files"
        for name in FILES:
            if name in sums:
                refuse_irregular(folder / name)
                if sha256(folder / name) != sums[name]:
                    return f"{name} has changed since it was written"
            elif (folder / name).exists():
                return f"{name} is not of this checkpoint"
    except FileNotFoundError as error:
        return f"{Path(str(error.filename)).name} is missing"
    except ConfigError as error:
        return str(error)
    except OSError as error:
        return f"{error.strerror} ({Path(str(error.filename)).name})"
    return None
