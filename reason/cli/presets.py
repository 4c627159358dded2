"""reason presets: what can be trained."""

from __future__ import annotations

import argparse
import inspect

from rich.console import Console
from rich.table import Table

from reason.config import Config, leaves
from reason.presets import PRESETS, preset


def main(argv: list[str]) -> int:
    """List every preset, or show one whole."""
    parser = argparse.ArgumentParser(
        prog="reason presets", description="List the presets, or show one with every setting it changes."
    )
    parser.add_argument("name", nargs="?", help="a preset to show whole")
    name = parser.parse_args(argv).name
    console = Console()
    if name is None:
        view = Table(title="presets: python train.py NAME", title_justify="left")
        view.add_column("name", no_wrap=True)
        view.add_column("parameters", justify="right", no_wrap=True)
        view.add_column("what it is")
        for each in PRESETS.values():
            view.add_row(each.name, f"{each.parameter_count():,}", each.summary)
        console.print(view)
        return 0
    chosen = preset(name)
    console.print(inspect.cleandoc(chosen.recipe.__doc__ or ""), highlight=False)
    console.print(f"\n{chosen.parameter_count():,} parameters for {chosen.shape.cells} cells", highlight=False)
    config = chosen.config()
    default = leaves(Config().model_dump() | {"model": type(config.model)().model_dump()})
    view = Table(title=f"{name}: settings that differ from the defaults", title_justify="left")
    for column in ("setting", "value", "default"):
        view.add_column(column)
    for key, value in leaves(config.model_dump()).items():
        if value != default.get(key):
            view.add_row(key, str(value), str(default.get(key)))
    console.print(view)
    return 0
