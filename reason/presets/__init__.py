"""Recipes: each a function that returns a full config, whose docstring says where it comes from."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass

from reason.config import Config
from reason.errors import ConfigError
from reason.presets import small


@dataclass(frozen=True)
class Preset:
    """A recipe and the name it is called by."""

    name: str
    recipe: Callable[[], Config]

    @property
    def summary(self) -> str:
        """The first line of the recipe's docstring."""
        return (self.recipe.__doc__ or "").strip().splitlines()[0]

    def config(self) -> Config:
        """The recipe's config, under the preset's name."""
        return self.recipe().model_copy(update={"name": self.name})


PRESETS: dict[str, Preset] = {
    name: Preset(name, recipe)
    for name, recipe in {
        "sudoku-4x4": small.sudoku_4x4,
        "sudoku-6x6": small.sudoku_6x6,
        "sudoku-6x6-attention": small.sudoku_6x6_attention,
    }.items()
}


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
