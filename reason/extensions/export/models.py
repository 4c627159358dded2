"""reason models: the trained models that come with the package."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from datasets_gen.plugins import nearest
from datasets_gen.typed import Parser, typed
from reason.errors import ConfigError
from reason.pretrained import card, find_run, pretrained_models
from reason.report.section import share

DESCRIPTION = """List the trained models that come with the package, with their figures, or show the card of one.

  reason models
  reason models sudoku          its data, seed and commands, accuracy by supervision step
  reason solve sudoku PUZZLE    solve a puzzle with it
"""


def main(argv: list[str]) -> int:
    """List the models, or show the card of one; return the exit status."""
    parser = Parser(prog="reason models", description=DESCRIPTION)
    parser.add_argument("name", nargs="?")
    name, names = parser.parse_args(argv).name, pretrained_models()
    if name in names:
        print(typed((find_run(name) / "README.md").read_text(encoding="utf-8").split("---\n", 2)[2].strip()))
        return 0
    if name is not None:
        raise ConfigError(f"no model {name}; {nearest(name, names)}models are {', '.join(names) or 'none'}")
    view = Table(title="trained models: reason solve NAME PUZZLE", title_justify="left")
    for column in ("name", "parameters", "kB"):
        view.add_column(column, justify="left" if column == "name" else "right", no_wrap=True)
    view.add_column("exact on unseen puzzles")
    for name in names:
        model = card(name)
        figures = []
        for evaluation in model["evaluations"]:
            exact = evaluation["exact_by_step"]
            steps = sorted({1, min(model["trained_steps"], len(exact)), len(exact)})
            shares = ", ".join(f"{share(exact[step - 1])} at step {step}" for step in steps)
            figures.append(f"{evaluation['set']}: {shares} (n {evaluation['puzzles']:,})")
        view.add_row(name, f"{model['parameters']:,}", f"{model['bytes'] / 1000:,.0f}", "\n".join(figures))
    Console().print(view)
    return 0
