"""Presets of declared puzzles: one network that reads constraints, continued on the puzzles of each page."""

from __future__ import annotations

import inspect
from functools import partial
from pathlib import Path

from datasets_gen.extensions.declared.pages import page_named
from datasets_gen.extensions.declared.puzzles import sample
from reason.config.overrides import Changes, derive
from reason.config.schema import Config
from reason.presets import BASES, MADE, Preset, add_presets

PAGES: dict[str, tuple[int, Changes]] = {  # training puzzles, and what `declared_puzzle` is changed by
    "killer": (2500, {"training.steps": 4000}),
    "futoshiki": (2500, {"training.steps": 2500}),
    "kakuro": (2500, {}),
    "takuzu": (2500, {"training.steps": 2500}),
    "light-up": (2500, {"training.steps": 10000}),
    "nonogram": (5000, {"training.steps": 700}),
    "queens": (1000, {"training.steps": 700}),  # of about 2,000 that there are
    "colouring": (2500, {"training.steps": 1500}),
    "sudoku-diagonal": (2500, {"training.steps": 1800}),
    "sudoku-jigsaw": (2500, {"training.steps": 2200}),
    "latin-10": (2500, {"training.steps": 900}),
    "hitori": (2500, {}),
    "slitherlink": (2500, {"training.steps": 8000}),
    "sudoku-16": (
        1000,  # its groups are all constraints; `linear` would have 4,096 booleans and more
        {
            "init_from": None,
            "model.mixer": "groups",
            "model.hidden_size": 32,
            "model.open_only": True,
            "optimizer.muon_lr": 0.01,
            "optimizer.lr": 0.003,
            "training.steps": 2500,
        },
    ),
}


# the relations of a sample; a set may have a larger clue number
MADE |= {page: lambda options: sample(options["name"])[0] for page in PAGES}


def declared_puzzle() -> Config:
    """Any declared puzzle, one of your own too: type data=DIR. Continues the network `any`, which reads constraints.

    Width 48, N_super 8, 3,000 steps; every second puzzle is drawn with one to six hints.
    """
    changes = {"init_from": "any", "optimizer.muon_lr": 0.002, "optimizer.lr": 0.0007, "training.steps": 3000}
    return derive(from_constraints(), changes)


def from_constraints() -> Config:
    """Return a network that reads linear constraints, from random weights."""
    return derive(
        BASES["within-groups"].config,
        {
            "data.directory": None,
            "data.generate": {},
            "data.hints": 6,
            "model.mixer": "linear",
            "model.hidden_size": 48,
            "optimizer.muon_lr": 0.003,
            "optimizer.lr": 0.001,
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
WITHOUT = ("hitori", "slitherlink", "sudoku-16")  # the weights of the package did not train on these
ANY = [*(name for name in PAGES if name not in WITHOUT), *RANDOM]


def any_puzzle() -> Config:
    """One network for any declared puzzle: its mixer reads linear constraints, and no weight knows a puzzle's name.

    Trains on eleven pages and four pages of random constraints in turn; answers kinds that it never saw (docs/data.md).
    """
    made = {"name": tuple(ANY), "train": 600, "validation": 60, "test": 200}
    return derive(
        from_constraints(), {"data.directory": ",".join(f"data/{name}" for name in ANY), "data.generate": made}
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
