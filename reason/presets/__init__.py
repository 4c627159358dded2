"""Recipes: each a function that returns a full config, whose docstring says where it comes from."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from dataclasses import dataclass

import torch

from datasets_gen.addition import Addition
from datasets_gen.maze import Maze
from datasets_gen.puzzles import Puzzle
from datasets_gen.sudoku import Sudoku
from reason.config.schema import Config
from reason.errors import ConfigError
from reason.models import build_model
from reason.models.base import Shape
from reason.presets import authors, blindspot, cmm, cmm_noise, ouro, small, stars
from reason.presets.tables import PaperTable, Row


@dataclass(frozen=True)
class Preset:
    """A recipe, the name it is called by, the shape of the puzzles it is made for, and where it comes from."""

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
        """The recipe's config, under the preset's name."""
        return self.recipe().model_copy(update={"name": self.name})

    def parameter_count(self) -> int:
        """Trained numbers of the model, for puzzles of the preset's own shape; no memory is taken."""
        with torch.device("meta"):
            return build_model(self.config().model, self.shape).parameter_count()


def _shape(puzzle: Puzzle) -> Shape:
    return Shape(seq_len=puzzle.seq_len, vocab_size=puzzle.vocab_size, structure=puzzle.structure)


SUDOKU_4, SUDOKU_6, SUDOKU_9 = (_shape(Sudoku(size)) for size in (4, 6, 9))
ADDITION_3, ADDITION_4 = (_shape(Addition(digits)) for digits in (3, 4))
MAZE_10, MAZE_30 = (_shape(Maze(size)) for size in (10, 30))

PRESETS: dict[str, Preset] = {
    name: Preset(name, recipe, shape, inspect.cleandoc(recipe.__doc__ or ""))
    for name, recipe, shape in (
        ("sudoku-4x4", small.sudoku_4x4, SUDOKU_4),
        ("sudoku-6x6", small.sudoku_6x6, SUDOKU_6),
        ("sudoku-6x6-attention", small.sudoku_6x6_attention, SUDOKU_6),
        ("sudoku-6x6-hrm", small.sudoku_6x6_hrm, SUDOKU_6),
        ("sudoku-6x6-looped", small.sudoku_6x6_looped, SUDOKU_6),
        ("sudoku-6x6-cmm-node", small.sudoku_6x6_cmm_node, SUDOKU_6),
        ("sudoku-6x6-cmm-nsde", small.sudoku_6x6_cmm_nsde, SUDOKU_6),
        ("maze-10x10", small.maze_10x10, MAZE_10),
        ("addition-3", small.addition_3, _shape(Addition(3, causal=False))),
        ("hrm-sudoku", authors.hrm_sudoku, SUDOKU_9),
        ("hrm-maze", authors.hrm_maze, MAZE_30),
        ("trm-att-sudoku", authors.trm_att_sudoku, SUDOKU_9),
        ("trm-mlp-sudoku", authors.trm_mlp_sudoku, SUDOKU_9),
        ("trm-att-maze", authors.trm_att_maze, MAZE_30),
        *((name, recipe, ADDITION_4) for name, recipe in stars.recipes().items()),
        *(
            (name, recipe, ADDITION_3 if "small" in name else ADDITION_4)
            for name, recipe in blindspot.recipes().items()
        ),
        ("ouro-stage-1", ouro.stage_1, ADDITION_4),
        ("ouro-stage-2", ouro.stage_2, ADDITION_4),
        ("ouro-upcycled", ouro.upcycled, ADDITION_4),
        ("ouro-small-stage-1", ouro.small_stage_1, ADDITION_3),
        ("ouro-small-stage-2", ouro.small_stage_2, ADDITION_3),
        ("ouro-small-upcycled", ouro.small_upcycled, ADDITION_3),
    )
}


def _of_table(table: PaperTable, row: Row) -> Preset:
    name = f"{table.name}-{row.label}"
    shape = MAZE_30 if table.maze else SUDOKU_9
    return Preset(name, lambda: table.config(row), shape, table.describe(row), row)


TABLES = (*cmm.TABLES, *cmm_noise.TABLES)
PRESETS |= {chosen.name: chosen for table in TABLES for row in table.rows for chosen in (_of_table(table, row),)}


def preset(name: str) -> Preset:
    """The preset of that name.

    Raises:
        ConfigError: there is none; the nearest name is offered.
    """
    if name in PRESETS:
        return PRESETS[name]
    near = difflib.get_close_matches(name, PRESETS, n=1, cutoff=0.4)
    hint = f"did you mean {near[0]}? " if near else ""
    raise ConfigError(f"unknown preset {name}; {hint}`reason presets` lists all {len(PRESETS)}")
