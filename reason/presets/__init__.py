"""Presets: named configs and their sources."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from datasets_gen.plugins import nearest
from reason.config.overrides import derive
from reason.config.schema import Config
from reason.errors import ConfigError
from reason.models import build_model
from reason.models.base import Shape
from reason.plugins import installed, load_parts, own_recipe
from reason.presets import small, structured
from reason.presets.bases import MAZE_10, MAZE_15, SUDOKU_4, SUDOKU_6, SUDOKU_9
from reason.presets.tables import PaperTable, Row, read_papers


@dataclass(frozen=True)
class Preset:
    """A named config, the shape of its puzzles, and its source."""

    name: str
    recipe: Callable[[], Config]
    find_shape: Callable[[], Shape]  # on demand: of a declared puzzle, a sample tells its relations
    describe: Callable[[], str]  # on demand: of a table's row, it needs the row's whole config
    row: Row | None = None  # of a published table

    @property
    def shape(self) -> Shape:
        """The shape of its puzzles."""
        return self.find_shape()

    @property
    def description(self) -> str:
        """Its source, then what is inherited and what is ours."""
        return self.describe()

    @property
    def summary(self) -> str:
        """The first line of the description."""
        return self.description.splitlines()[0]

    def config(self) -> Config:
        """The config, with the preset's name."""
        return derive(self.recipe(), {"name": self.name})

    def parameter_count(self) -> int:
        """Parameters of the model for puzzles of the preset's shape; nothing is allocated."""
        with torch.device("meta"):
            return build_model(self.config().model, self.shape).parameter_count()


Recipe = Callable[[], Config]
RECIPES: dict[str, dict[Recipe, Shape]] = {  # by the title of their group; sudoku_4x4 is the preset sudoku-4x4
    "Start here: minutes on a laptop": {
        small.sudoku_4x4: SUDOKU_4,
        structured.sudoku_6x6_groups: SUDOKU_6,
        structured.maze_10x10_narrow: MAZE_10,
    },
    "Sudoku": {
        small.sudoku_6x6: SUDOKU_6,
        small.sudoku_6x6_attention: SUDOKU_6,
        small.sudoku_6x6_hrm: SUDOKU_6,
        small.sudoku_6x6_cmm_node: SUDOKU_6,
        small.sudoku_6x6_cmm_nsde: SUDOKU_6,
        structured.sudoku_9x9: SUDOKU_9,
        structured.sudoku_9x9_long: SUDOKU_9,
        structured.sudoku_9x9_hrm: SUDOKU_9,
        structured.sudoku_9x9_cmm_node: SUDOKU_9,
        structured.sudoku_9x9_cmm_nsde: SUDOKU_9,
    },
    "Mazes": {
        small.maze_10x10_attention: MAZE_10,
        structured.maze_10x10: MAZE_10,
        structured.maze_10x10_hrm: MAZE_10,
        structured.maze_10x10_cmm_node: MAZE_10,
        structured.maze_10x10_cmm_nsde: MAZE_10,
        structured.maze_any: MAZE_15,
    },
}
AUTHORS = "HRM and TRM at their authors' size: hours to days on a GPU"
HERE = Path(__file__).parent
PRESETS: dict[str, Preset] = {}
TABLES: list[PaperTable] = []
LISTS: dict[Path, dict[str, str]] = {}  # for each folder with presets, which its list.json holds: titles by name


def add_presets(home: Path, presets: Iterable[Preset], title: str) -> None:
    """Enter presets, whose code and list.json are in the folder `home`; title: of the group in `reason presets`."""
    for each in presets:
        PRESETS[each.name] = each
        LISTS.setdefault(home, {})[each.name] = title


def add_papers(home: Path, *papers: str) -> None:
    """Enter the authors' own presets and every row of the tables of `home`/papers/PAPER.yaml."""
    authors, tables = read_papers(home / "papers", papers)
    bases = (
        Preset(name, partial(getattr, base, "config"), partial(getattr, base, "shape"), partial(getattr, base, "about"))
        for name, base in authors.items()
    )
    add_presets(home, bases, AUTHORS)
    for table in tables:
        TABLES.append(table)
        add_presets(home, (_of_row(table, row) for row in table.rows), "")


def of_recipe(recipe: Recipe, shape: Shape) -> Preset:
    """The preset of a function: sudoku_4x4 is sudoku-4x4, its docstring the description."""
    about = partial(inspect.cleandoc, recipe.__doc__ or "")
    return Preset(recipe.__name__.replace("_", "-"), recipe, lambda: shape, about)


def _of_row(table: PaperTable, row: Row) -> Preset:
    config, about = partial(table.config, row), partial(table.describe, row)
    return Preset(table.preset_name(row), config, partial(getattr, table.base, "shape"), about, row)


for _title, _recipes in RECIPES.items():
    add_presets(HERE, (of_recipe(recipe, shape) for recipe, shape in _recipes.items()), _title)
add_papers(HERE, "authors", "cmm")
load_parts("presets")


def preset(name: str) -> Preset:
    """The preset of that name, or the function NAME of a file of one's own, `FILE.py:NAME`.

    Raises:
        ConfigError: there is none; the nearest name is offered.
    """
    if (recipe := own_recipe(name)) is not None:
        made = recipe()
        if not isinstance(made, Config):
            mend = "a preset returns a config: derive(Config(), {…})"
            raise ConfigError(f"{name} returned {type(made).__name__}; {mend}")
        plain = name.rpartition(":")[2].replace("_", "-")
        return Preset(plain, lambda: made, lambda: SUDOKU_9, lambda: inspect.cleandoc(recipe.__doc__ or plain))
    if name in PRESETS:
        return PRESETS[name]
    alike = [each for each in PRESETS if each.startswith(f"{name}-")]
    hint = f"`reason presets {name}-` lists the {len(alike)} of that name; " if alike else nearest(name, PRESETS)
    raise ConfigError(f"unknown preset {name}; {hint}`reason presets` lists all {len(PRESETS)}; {installed()}")
