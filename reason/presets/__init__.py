"""Presets: named configs and their sources."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from datasets_gen.plugins import nearest
from reason.config.overrides import derive
from reason.config.schema import Config
from reason.errors import ConfigError
from reason.models import build_model
from reason.models.base import Shape
from reason.plugins import installed, load_parts, user_preset
from reason.presets.tables import BASES as BASES
from reason.presets.tables import MADE as MADE
from reason.presets.tables import Base, PaperTable, Row, read_papers, shape_made


@dataclass(frozen=True)
class Preset:
    """A named config, the shape of its puzzles, and its source."""

    name: str
    recipe: Callable[[], Config]
    description: Callable[[], str]  # its source, what is inherited, what is ours; for a row it needs the whole config
    row: Row | None = None  # of a published table
    like: Mapping[str, Any] | None = None  # options of a generator whose shape counts if `data.generate` has none

    @property
    def shape(self) -> Shape:
        """The shape of its puzzles."""
        options = self.config().data.generate
        return shape_made(options if self.like is None or options.get("name") in MADE else self.like)

    @property
    def summary(self) -> str:
        """The first line of the description."""
        return self.description().splitlines()[0]

    def config(self) -> Config:
        """Return the config, with the preset's name."""
        return derive(self.recipe(), {"name": self.name})

    def parameter_count(self) -> int:
        """Return the number of parameters of the model for the preset's puzzles; nothing is allocated."""
        with torch.device("meta"):
            return build_model(self.config().model, self.shape).parameter_count()


HERE = Path(__file__).parent
PRESETS: dict[str, Preset] = {}  # those read so far, as TABLES and LISTS; `presets` reads the rest
TABLES: list[PaperTable] = []
LISTS: dict[Path, dict[str, str]] = {}  # {folder: {preset: group title}}; list.json of the folder holds it


def add_presets(home: Path, presets: Iterable[Preset], title: str) -> None:
    """Enter presets, whose code and list.json are in the folder `home`; title: of the group in `reason presets`."""
    for each in presets:
        PRESETS[each.name] = each
        LISTS.setdefault(home, {})[each.name] = title


def add_papers(home: Path, *papers: str) -> None:
    """Enter the presets and every row of the tables of `home`/papers/PAPER.yaml."""
    for paper in papers:
        groups, tables = read_papers(home / "papers" / f"{paper}.yaml")
        for title, bases in groups.items():
            add_presets(home, (_base_preset(name, base) for name, base in bases.items()), title)
        for table in tables:
            TABLES.append(table)
            add_presets(home, (_row_preset(table, row) for row in table.rows), "")


def _base_preset(name: str, base: Base) -> Preset:
    return Preset(name, lambda: base.config, lambda: base.about)


def _row_preset(table: PaperTable, row: Row) -> Preset:
    config, about = partial(table.config, row), partial(table.describe, row)
    return Preset(table.preset_name(row), config, about, row)


UNREAD: list[Callable[[], None]] = [partial(add_papers, HERE, paper) for paper in ("ours", "authors", "cmm")]
UNREAD.append(partial(load_parts, "presets"))


def presets(name: str | None = None) -> dict[str, Preset]:
    """Return all presets by name; given a name, only the files up to the one that holds it are read."""
    while UNREAD and name not in PRESETS:
        UNREAD.pop(0)()
    return PRESETS


def tables() -> list[PaperTable]:
    """Return all tables of the papers."""
    presets()
    return TABLES


def preset(name: str) -> Preset:
    """Return the preset of that name, or of function NAME in `FILE.py:NAME`. Raises ConfigError if there is none."""
    if (recipe := user_preset(name)) is not None:
        made = recipe if isinstance(recipe, type) else recipe()
        if not isinstance(made, Config):
            fix = "a preset returns a config: derive(Config(), {…}); a class is named by model.kind"
            raise ConfigError(f"{name} returned {type(made).__name__}; {fix}")
        plain = name.rpartition(":")[2].replace("_", "-")
        presets()  # extensions add to MADE
        about = partial(inspect.cleandoc, recipe.__doc__ or plain)
        return Preset(plain, lambda: made, about, like={"name": "sudoku", "size": 9})
    if name in presets(name):
        return PRESETS[name]
    alike = [each for each in PRESETS if each.startswith(f"{name}-")]
    hint = f"`reason presets {name}-` lists the {len(alike)} of that name; " if alike else nearest(name, PRESETS)
    raise ConfigError(f"unknown preset {name}; {hint}`reason presets` lists all {len(PRESETS)}; {installed()}")
