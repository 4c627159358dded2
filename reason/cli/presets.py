"""reason presets: list presets, show one, print a paper's table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from datasets_gen.plugins import nearest
from datasets_gen.typed import Parser, typed
from reason.errors import ConfigError
from reason.files import read_json
from reason.plugins import extension, extensions

if TYPE_CHECKING:
    from reason.presets import Preset
    from reason.presets.tables import PaperTable

PACKAGE = Path(__file__).parents[1]  # its list.json files make the list without torch, in 0.14 s instead of 10 s
LARGE = 200_000_000  # parameters: no step of more is measured
PAPERS = "The papers' tables and figures, a preset for each row"
DESCRIPTION = """List the presets, show one preset with every setting that it changes, or print a paper's table.

  reason presets                 the small presets, the authors' presets, and one line for the tables of each paper
  reason presets cmm-5-          all presets whose names start with cmm-5-
  reason presets cmm-6-4         one preset: its source, what is ours, every setting that it changes
  reason presets --table cmm-6   a paper's table, row by row

A table shows the features, the accuracy and the size as the paper prints them, and the number of parameters that this
project counts."""


def main(argv: list[str]) -> int:
    """List every preset, show one whole, or print a table."""
    parser = Parser(prog="reason presets", description=DESCRIPTION)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("name", nargs="?", help="a preset to show whole, or how the names to list begin")
    what.add_argument("--table", help="a paper's table or figures, such as cmm-6; an unknown name lists all")
    arguments = parser.parse_args(argv)
    console, presets = Console(), listing()
    named = [each for each in presets if arguments.name and each.name.startswith(arguments.name)]
    if arguments.table is not None:
        console.print(*(_part(table) for table in _tables(arguments.table)))
    elif arguments.name is None:
        console.print(_overview(presets))
    elif named and all(each.name != arguments.name for each in named):
        console.print(_filled(_table(), named))
    else:
        from reason.presets import preset

        _show(console, preset(arguments.name))
    return 0


class Listed(NamedTuple):
    """A preset in the list."""

    name: str
    parameters: int
    summary: str
    title: str = ""  # of its group; "" for a row of a paper's table


def listing() -> list[Listed]:
    """Return every preset in the list.json files: those of the core, then those of the extensions."""
    files = [PACKAGE / "presets/list.json", *sorted(PACKAGE.glob("extensions/*/list.json"))]
    return [Listed(*entry) for file in files for entry in read_json(file)]


def _table() -> Table:
    view = Table(
        title=typed("presets: python train.py NAME"),
        title_justify="left",
        caption="A claimed accuracy is for the published data set, which may be put into data/ (docs/recipes.md).",
        caption_justify="left",
    )
    view.add_column("name", no_wrap=True)
    view.add_column("parameters", justify="right", no_wrap=True)
    view.add_column("what it is")
    return view


def _filled(view: Table, presets: Sequence[Listed]) -> Table:
    for each in presets:
        view.add_row(each.name, f"{each.parameters:,}", each.summary)
    return view


def _overview(presets: list[Listed]) -> Table:
    """Return a table of all presets in groups, with one line for each table of a paper."""
    view = _table()
    for title in dict.fromkeys(each.title for each in presets if each.title):
        view.add_row("", "", Text(title, style="bold"))
        _filled(view, [each for each in presets if each.title == title])
        view.add_section()
    view.add_row("", "", Text(PAPERS, style="bold"))
    papers = [each.name.split("-")[0] for each in presets if not each.title]
    for paper in dict.fromkeys(papers):
        view.add_row(f"{paper}-…", "", f"{papers.count(paper)} presets; list them with: reason presets {paper}-")
    return view


def _show(console: Console, chosen: Preset) -> None:
    from reason.config.overrides import leaves, value_text
    from reason.config.schema import Config

    console.print(chosen.description(), highlight=False, markup=False)
    config, size = chosen.config(), chosen.parameter_count()
    print(f"\n{size:,} parameters for {chosen.shape.seq_len} cells")
    if size < LARGE and "memory" in extensions():
        hours = extension("memory", "estimate").hours(config, chosen.shape)
        if hours < 1000:
            print(f"about {hours:,.{0 if hours > 9 else 2}f} hours here: one measured step of a few rows, uncompiled")
    default = leaves(Config().model_dump() | {"model": type(config.model)().model_dump()})
    print("\nsettings that differ from the defaults:")
    for key, value in leaves(config.model_dump()).items():
        if value != default.get(key):
            print(f"  {key}={value_text(value)}  (default {value_text(default.get(key))})")


def _tables(name: str) -> list[PaperTable]:
    """Return the parts of a table. Raises ConfigError if no table has that name."""
    from reason.presets import tables

    if found := [table for table in tables() if table.name == name]:
        return found
    names = dict.fromkeys(table.name for table in tables())
    raise ConfigError(f"no table {name}; {nearest(name, names)}tables are {', '.join(names)}")


def _part(table: PaperTable) -> Group:
    """Return the rows of a table, then its title, claim and decisions."""
    from reason.presets import PRESETS

    view = Table(title=f"{table.paper}: {table.measure}".removesuffix(": "), title_justify="left")
    for column in ("preset", "features", "claimed", "parameters"):
        view.add_column(column, no_wrap=column == "preset")
    for row in table.rows:
        chosen = PRESETS[table.preset_name(row)]
        size = f"{chosen.parameter_count():,}" + (f" ({row.parameters})" if row.parameters else "")
        view.add_row(chosen.name, row.features, row.claimed, size)
    notes = {"": table.title, "claimed: ": table.claimed, "ours: ": table.ours, "departure: ": table.departure}
    return Group(view, *(Text(f"{name}{text}") for name, text in notes.items() if text))
