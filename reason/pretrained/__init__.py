"""Trained models that come with the package, each a folder that `reason export` wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from datasets_gen.plugins import nearest
from reason.errors import ConfigError
from reason.files import read_json

FOLDER = Path(__file__).parent
CARD = "card.json"


def pretrained_models() -> list[str]:
    """Return the names of the models that come with the package."""
    return sorted(path.parent.name for path in FOLDER.glob(f"*/{CARD}"))


def card(name: str) -> dict[str, Any]:
    """Return a model's card: its puzzles, data and seed, accuracy by step with n, and the commands that made it."""
    return read_json(FOLDER / name / CARD)


def find_run(source: Path | str) -> Path:
    """Return the folder of a run, given by its path or as the name of a trained model; else the path itself.

    A model has priority over a folder of its name, unless the folder is a run or is typed with a separator: ./maze.

    Raises:
        ConfigError: there is no such path, and a model has almost that name.
    """
    name, models = str(source), pretrained_models()
    if name in models and not Path(name, "config.json").exists():
        return FOLDER / name
    if Path(source).exists():
        return Path(source)
    if near := nearest(name, models):
        raise ConfigError(f"no run at {name}, and no model of that name; {near}see: reason models")
    return Path(source)
