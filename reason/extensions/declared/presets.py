"""Presets of declared puzzles: one network design, whose messages follow the constraints of each page."""

from __future__ import annotations

import inspect
from functools import partial
from pathlib import Path

from datasets_gen.extensions.declared.pages import page_named
from datasets_gen.extensions.declared.puzzles import sample
from reason.config.overrides import Changes, derive
from reason.config.schema import Config
from reason.presets import BASES, MADE, Preset, add_presets

NARROW: Changes = {"model.hidden_size": 32, "model.open_only": True}  # as sudoku-9x9
PAGES: dict[str, tuple[int, Changes]] = {  # training puzzles, and what `declared_puzzle` is changed by
    "killer": (2500, {}),
    "futoshiki": (2500, {}),
    "kakuro": (2500, {}),
    "takuzu": (2500, {}),
    "light-up": (2500, {}),
    "nonogram": (5000, {}),
    "queens": (1000, {}),  # of about 2,000 that there are
    "colouring": (5000, {}),
    "sudoku-diagonal": (2500, NARROW),
    "sudoku-jigsaw": (2500, NARROW),
    "latin-10": (2500, NARROW),
    "sudoku-16": (1000, NARROW | {"training.steps": 2500}),
}


# the relations of a sample; a set may have a larger clue number
MADE |= {page: lambda options: sample(options["name"])[0] for page in PAGES}


def declared_puzzle() -> Config:
    """Any declared puzzle, one of your own too: type data=DIR. Messages within each constraint, sudoku-9x9's recipe.

    Width 48, N_super 8, 6,000 steps; every second puzzle is drawn with one to six hints.
    """
    return derive(
        BASES["within-groups"].config,
        {
            "data.directory": None,
            "data.generate": {},
            "data.hints": 6,
            "model.mixer": "relations",
            "model.hidden_size": 48,
            "rollout.supervision_steps": 8,
            "training.steps": 6000,
            "training.checkpoint_every": 500,
            "training.monitor.puzzles": 200,
        },
    )


def of_page(name: str) -> Config:
    """`declared_puzzle` on the puzzles of a page of datasets_gen/extensions/declared/pages."""
    train, changes = PAGES[name]
    made = {"name": name, "train": train, "validation": 200, "test": 500}
    return derive(declared_puzzle(), {"data.directory": f"data/{name}", "data.generate": made} | changes)


def about(name: str) -> str:
    """The description of a page's preset."""
    summary = (page_named(name).__doc__ or name).split("\n")[0]
    told = "A declared puzzle (docs/data.md); one recipe serves all of them, measured in docs/log/structure.md."
    return f"{summary}\n\n{told}"


RANDOM = ["random-values", "random-binary", "random-walls", "random-mixed"]
ANY = [*(name for name in PAGES if name != "sudoku-16"), *RANDOM]


def any_puzzle() -> Config:
    """One network for any declared puzzle: its mixer reads linear constraints, and no weight knows a puzzle's name.

    Trains on eleven pages and four pages of random constraints in turn; answers kinds that it never saw (docs/data.md).
    """
    made = {"name": tuple(ANY), "train": 600, "validation": 60, "test": 200}
    changes = {"data.directory": ",".join(f"data/{name}" for name in ANY), "data.generate": made}
    return derive(
        declared_puzzle(), changes | {"model.mixer": "linear", "optimizer.muon_lr": 0.003, "optimizer.lr": 0.001}
    )


HERE, TITLE = Path(__file__).parent, "Puzzles declared by their constraints (docs/data.md)"
any_page = partial(inspect.cleandoc, declared_puzzle.__doc__ or "")
of_any = partial(inspect.cleandoc, any_puzzle.__doc__ or "")
general = [
    Preset("declared-puzzle", declared_puzzle, any_page, like={"name": "killer"}),
    Preset("any", any_puzzle, of_any, like={"name": "killer"}),
]
add_presets(HERE, general, TITLE)
of_pages = (Preset(page, partial(of_page, page), partial(about, page)) for page in PAGES)
add_presets(HERE, of_pages, TITLE)
