"""Presets: named configs and their sources."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from dataclasses import dataclass

import torch

from reason.config.overrides import derive
from reason.config.schema import Config
from reason.errors import ConfigError
from reason.models import build_model
from reason.models.base import Shape
from reason.own_code import own_recipe
from reason.presets import authors, blindspot, cmm, cmm_noise, ouro, small, stars, structured
from reason.presets.bases import (
    ARC_8,
    ARC_30,
    BLANK_ADDITION_3,
    MAZE_10,
    MAZE_15,
    MAZE_30,
    MIXED_ADDITION_3,
    SUDOKU_4,
    SUDOKU_6,
    SUDOKU_9,
)
from reason.presets.tables import PaperTable, Row


@dataclass(frozen=True)
class Preset:
    """A named config, the shape of its puzzles, and its source."""

    name: str
    recipe: Callable[[], Config]
    shape: Shape
    description: str
    row: Row | None = None  # of a published table

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


def _of_recipe(name: str, recipe: Callable[[], Config], shape: Shape) -> Preset:
    return Preset(name, recipe, shape, inspect.cleandoc(recipe.__doc__ or ""))


def _of_row(table: PaperTable, row: Row) -> Preset:
    return Preset(table.preset_name(row), lambda: table.config(row), table.shape, table.describe(row), row)


FOR_A_CPU = {
    "trm": "sudoku-6x6",
    "hrm": "sudoku-6x6-hrm",
    "cmm": "sudoku-6x6-cmm-node",
    "stars": "stars-small",
    "ouro": "ouro-small-stage-1",
    "sudoku": "sudoku-6x6",
    "maze": "maze-10x10",
    "addition": "addition-3",
}
FEW = 6  # names that fit an error's line
TABLES = (*stars.TABLES, *blindspot.TABLES, *ouro.TABLES, *cmm.TABLES, *cmm_noise.TABLES)
PRESETS: dict[str, Preset] = {
    each.name: each
    for each in (
        _of_recipe("sudoku-4x4", small.sudoku_4x4, SUDOKU_4),
        _of_recipe("sudoku-6x6", small.sudoku_6x6, SUDOKU_6),
        _of_recipe("sudoku-6x6-attention", small.sudoku_6x6_attention, SUDOKU_6),
        _of_recipe("sudoku-6x6-hrm", small.sudoku_6x6_hrm, SUDOKU_6),
        _of_recipe("sudoku-6x6-looped", small.sudoku_6x6_looped, SUDOKU_6),
        _of_recipe("sudoku-6x6-cmm-node", small.sudoku_6x6_cmm_node, SUDOKU_6),
        _of_recipe("sudoku-6x6-cmm-nsde", small.sudoku_6x6_cmm_nsde, SUDOKU_6),
        _of_recipe("maze-10x10", structured.maze_10x10, MAZE_10),
        _of_recipe("maze-10x10-narrow", structured.maze_10x10_narrow, MAZE_10),
        _of_recipe("maze-10x10-attention", small.maze_10x10_attention, MAZE_10),
        _of_recipe("maze-10x10-hrm", structured.maze_10x10_hrm, MAZE_10),
        _of_recipe("maze-10x10-cmm-node", structured.maze_10x10_cmm_node, MAZE_10),
        _of_recipe("maze-10x10-cmm-nsde", structured.maze_10x10_cmm_nsde, MAZE_10),
        _of_recipe("maze-any", structured.maze_any, MAZE_15),
        _of_recipe("sudoku-6x6-groups", structured.sudoku_6x6_groups, SUDOKU_6),
        _of_recipe("sudoku-9x9", structured.sudoku_9x9, SUDOKU_9),
        _of_recipe("sudoku-9x9-long", structured.sudoku_9x9_long, SUDOKU_9),
        _of_recipe("sudoku-9x9-hrm", structured.sudoku_9x9_hrm, SUDOKU_9),
        _of_recipe("sudoku-9x9-cmm-node", structured.sudoku_9x9_cmm_node, SUDOKU_9),
        _of_recipe("sudoku-9x9-cmm-nsde", structured.sudoku_9x9_cmm_nsde, SUDOKU_9),
        _of_recipe("addition-3", small.addition_3, BLANK_ADDITION_3),
        _of_recipe("addition-3-mlp", small.addition_3_mlp, MIXED_ADDITION_3),
        _of_recipe("arc-few", small.arc_few, ARC_8),
        _of_recipe("hrm-sudoku", authors.hrm_sudoku, SUDOKU_9),
        _of_recipe("hrm-maze", authors.hrm_maze, MAZE_30),
        _of_recipe("trm-att-sudoku", authors.trm_att_sudoku, SUDOKU_9),
        _of_recipe("trm-mlp-sudoku", authors.trm_mlp_sudoku, SUDOKU_9),
        _of_recipe("trm-att-maze", authors.trm_att_maze, MAZE_30),
        _of_recipe("hrm-arc", authors.hrm_arc, ARC_30),
        _of_recipe("trm-att-arc", authors.trm_att_arc, ARC_30),
        *(_of_row(table, row) for table in TABLES for row in table.rows),
    )
}


def _own(name: str, recipe: Callable[[], object]) -> Preset:
    made = recipe()
    if not isinstance(made, Config):
        raise ConfigError(f"{name} returned {type(made).__name__}; a preset returns a config: derive(Config(), {{…}})")
    plain = name.rpartition(":")[2].replace("_", "-")
    return Preset(plain, lambda: made, SUDOKU_9, inspect.cleandoc(recipe.__doc__ or plain))


def preset(name: str) -> Preset:
    """The preset of that name, or the function NAME of a file of one's own, `FILE.py:NAME`.

    Raises:
        ConfigError: there is none; the nearest name is offered.
    """
    if (recipe := own_recipe(name)) is not None:
        return _own(name, recipe)
    if name in PRESETS:
        return PRESETS[name]
    family = [each for each in PRESETS if each.startswith(f"{name}-")]
    alike = [each for each in PRESETS if each.split("-")[0] == name.split("-")[0]] or PRESETS
    near = family or difflib.get_close_matches(name, alike, n=1, cutoff=0.6)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    if len(family) > FEW:
        hint = f"`reason presets {name}-` lists the {len(family)} of that name; "
    if name in FOR_A_CPU:
        hint += f"on a CPU in minutes: {FOR_A_CPU[name]}; "
    raise ConfigError(f"unknown preset {name}; {hint}`reason presets` lists all {len(PRESETS)}")
