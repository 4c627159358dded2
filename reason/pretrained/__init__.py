"""Trained models that come with the package, each a folder that `reason export` wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from reason.files import read_json
from reason.pretrained.card import FILE

FOLDER = Path(__file__).parent


def pretrained_models() -> list[str]:
    """The names of the models that come with the package."""
    return sorted(path.parent.name for path in FOLDER.glob(f"*/{FILE}"))


def card(name: str) -> dict[str, Any]:
    """A model's card: what it solves, its data and seed, accuracy by step with n, and the commands that made it."""
    return read_json(FOLDER / name / FILE)


def find_run(source: Path | str) -> Path:
    """The folder of a run that is named by its path or is one of the trained models; the path itself if neither."""
    if not Path(source).exists() and str(source) in pretrained_models():
        return FOLDER / str(source)
    return Path(source)
