"""reason models: the trained models that come with the package."""

from __future__ import annotations

import difflib

from rich.console import Console
from rich.table import Table

from datasets_gen.typed import Parser, typed
from reason.errors import ConfigError
from reason.pretrained import card, pretrained_models
from reason.pretrained.card import markdown, per_cent

DESCRIPTION = """List the trained models that come with the package, with their figures, or show the card of one.

  reason models
  reason models sudoku          its data, seed and commands, accuracy by supervision step
  reason solve sudoku PUZZLE    solve a puzzle with it
"""


def main(argv: list[str]) -> int:
    """List, or show one; returns the exit status."""
    parser = Parser(prog="reason models", description=DESCRIPTION)
    parser.add_argument("name", nargs="?")
    name = parser.parse_args(argv).name
    names = pretrained_models()
    if name is None:
        _list(names)
        return 0
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise ConfigError(f"no model {name}; {hint}models are {', '.join(names) or 'none'}")
    print(typed(markdown(card(name)).split("---\n", 2)[2].strip()))
    return 0


def _list(names: list[str]) -> None:
    view = Table(title="trained models: reason solve NAME PUZZLE", title_justify="left")
    for column in ("name", "parameters", "kB"):
        view.add_column(column, justify="left" if column == "name" else "right", no_wrap=True)
    view.add_column("exact on unseen puzzles")
    for name in names:
        its = card(name)
        figures = []
        for one in its["evaluations"]:
            exact, steps, trained = one["exact_by_step"], one["steps"], min(its["trained_steps"], one["steps"])
            beyond = f", {per_cent(exact[-1])} at step {steps}" if steps > trained else ""
            begins = f"{per_cent(exact[0])} at step 1, {per_cent(exact[trained - 1])} at step {trained}"
            figures.append(f"{one['set']}: {begins}{beyond} (n {one['puzzles']:,})")
        view.add_row(name, f"{its['parameters']:,}", f"{its['bytes'] / 1000:,.0f}", "\n".join(figures))
    Console().print(view)
