"""Trained models that come with the package: NAME/config.json, checkpoints/ and card.json, as a run has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from reason.files import read_json

FOLDER = Path(__file__).parent


def pretrained_models() -> list[str]:
    """The names of the models that come with the package."""
    return sorted(path.parent.name for path in FOLDER.glob("*/card.json"))


def card(name: str) -> dict[str, Any]:
    """A model's card: what it solves, its data and seed, accuracy by step with n, and the commands that made it."""
    return read_json(FOLDER / name / "card.json")


def find_run(source: Path | str) -> Path:
    """The folder of a run that is named by its path or is one of the trained models; the path itself if neither."""
    if not Path(source).exists() and str(source) in pretrained_models():
        return FOLDER / str(source)
    return Path(source)
