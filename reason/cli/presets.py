"""reason presets: list presets, show one, print a paper's table."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from datasets_gen.typed import Parser, typed
from reason.errors import ConfigError
from reason.files import read_json

if TYPE_CHECKING:
    from reason.presets import Preset
    from reason.presets.tables import PaperTable

PACKAGE = Path(__file__).parents[1]  # its list.json files, so that the list needs no torch; tests hold them
START = ("sudoku-4x4", "sudoku-6x6-groups", "maze-10x10-narrow")
GROUPS: dict[str, Callable[[str], bool]] = {  # of presets without a title
    "Start here: minutes on a laptop": START.__contains__,
    "Sudoku": lambda name: name.startswith("sudoku-"),
    "Mazes": lambda name: name.startswith("maze-"),
    "HRM and TRM at their authors' size: hours to days on a GPU": lambda name: name.startswith(("hrm-", "trm-")),
}
PAPERS = "The papers' tables and figures, a preset for each row"  # the rest
DESCRIPTION = """List the presets, show one preset with every setting that it changes, or print a paper's table.

  reason presets                 the small presets, the authors' presets, and one line for the tables of each paper
  reason presets cmm-5-          all presets whose names start with cmm-5-
  reason presets cmm-6-4         one preset, with every setting that it changes
  reason presets --table cmm-6   a paper's table, row by row
  reason presets --departures    for each row: what the paper states, our decisions, our departures (Markdown)
  reason presets --table cmm-6 --departures

A table shows the features, the accuracy and the size as the paper prints them, and the number of parameters that this
project counts."""


def main(argv: list[str]) -> int:
    """List every preset, show one whole, or print a table."""
    parser = Parser(prog="reason presets", description=DESCRIPTION)
    parser.add_argument("name", nargs="?", help="a preset to show whole, or how the names to list begin")
    parser.add_argument(
        "--table", metavar="TABLE", help="a paper's table or figures, such as cmm-6; an unknown name lists all"
    )
    parser.add_argument(
        "--departures", action="store_true", help="row by row: stated, ours where nothing is stated, departures from it"
    )
    arguments = parser.parse_args(argv)
    if arguments.name is not None and arguments.table is not None:
        raise ConfigError(f"{arguments.name} and --table {arguments.table}: ask for one of the two")
    console = Console()
    if arguments.departures:
        print(departures(_tables(arguments.table)))
    elif arguments.table is not None:
        console.print(*(_part(table) for table in _tables(arguments.table)))
    elif arguments.name is None:
        console.print(_overview(listing()))
    elif family := _family(arguments.name):
        console.print(_table(family))
    else:
        from reason.presets import preset

        _show(console, preset(arguments.name))
    return 0


class Listed(NamedTuple):
    """A preset in the list."""

    name: str
    parameters: int
    summary: str
    title: str = ""  # of its group, where its extension states one


def listing() -> list[Listed]:
    """Every preset, as `write_list` found it: those of the core, then those of the extensions."""
    files = [PACKAGE / "presets/list.json", *sorted(PACKAGE.glob("extensions/*/list.json"))]
    return [Listed(*entry) for file in files for entry in read_json(file)]


def computed_lists() -> dict[Path, list[Listed]]:
    """For each folder with presets the list of them, from their configs and descriptions."""
    from reason.presets import LISTS, PRESETS

    def listed(each: Preset, title: str) -> Listed:
        return Listed(each.name, each.parameter_count(), each.summary, title)

    return {home: [listed(PRESETS[name], title) for name, title in of.items()] for home, of in LISTS.items()}


def write_lists() -> None:
    """Write every list.json anew, after a change of a preset: a line for each."""
    for home, entries in computed_lists().items():
        lines = ",\n".join(json.dumps(list(filter(None, entry)), ensure_ascii=False) for entry in entries)
        (home / "list.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def _family(beginning: str) -> list[Listed]:
    """The presets whose names begin so; [] for the whole name of one."""
    found = [each for each in listing() if each.name.startswith(beginning)]
    return [] if any(each.name == beginning for each in found) else found


def _table(chosen: Sequence[Listed]) -> Table:
    view = Table(
        title=typed("presets: python train.py NAME"),
        title_justify="left",
        caption="A claimed accuracy is for the published data set; a preset generates its own (docs/recipes.md).",
        caption_justify="left",
    )
    view.add_column("name", no_wrap=True)
    view.add_column("parameters", justify="right", no_wrap=True)
    view.add_column("what it is")
    for each in chosen:
        view.add_row(each.name, f"{each.parameters:,}", each.summary)
    return view


def _overview(presets: list[Listed]) -> Table:
    """All presets in groups; of each paper's tables a line."""
    view = _table([])
    groups: dict[str, list[Listed]] = {title: [] for title in GROUPS}
    for each in presets:
        title = each.title or next((title for title, belongs in GROUPS.items() if belongs(each.name)), PAPERS)
        groups.setdefault(title, []).append(each)
    left = groups.pop(PAPERS, [])
    for title, found in groups.items():
        view.add_row("", "", Text(title, style="bold"))
        for each in found:
            view.add_row(each.name, f"{each.parameters:,}", each.summary)
        view.add_section()
    view.add_row("", "", Text(PAPERS, style="bold"))
    for paper in dict.fromkeys(each.name.split("-")[0] for each in left):
        sizes = [each.parameters for each in left if each.name.split("-")[0] == paper]
        what = f"{len(sizes)} presets; list them with: reason presets {paper}-"
        view.add_row(f"{paper}-…", f"{min(sizes):,} to {max(sizes):,}", what)
    return view


def _show(console: Console, chosen: Preset) -> None:
    from reason.config.overrides import leaves
    from reason.config.schema import Config

    console.print(chosen.description, highlight=False, markup=False)
    console.print(f"\n{chosen.parameter_count():,} parameters for {chosen.shape.seq_len} cells", highlight=False)
    config = chosen.config()
    default = leaves(Config().model_dump() | {"model": type(config.model)().model_dump()})
    view = Table(title=f"{chosen.name}: settings that differ from the defaults", title_justify="left")
    for column in ("setting", "value", "default"):
        view.add_column(column)
    for key, value in leaves(config.model_dump()).items():
        if value != default.get(key):
            view.add_row(key, str(value), str(default.get(key)))
    console.print(view)


def _tables(name: str | None) -> list[PaperTable]:
    """The parts of a table; None: of all.

    Raises:
        ConfigError: there is none of that name; the nearest is offered.
    """
    from reason.presets import TABLES

    if name is None:
        return list(TABLES)
    names = list(dict.fromkeys(table.name for table in TABLES))
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise ConfigError(f"no table {name}; {hint}tables are {', '.join(names)}")
    return [table for table in TABLES if table.name == name]


def departures(tables: Sequence[PaperTable]) -> str:
    """Markdown: a table for each published one, a line for each row; what holds for all its rows stands above them."""
    from reason.config.overrides import as_typed

    parts = []
    for table in tables:
        notes = {"Stated": table.title, "Inherited": " ".join(table.inherited.split())}
        notes |= {"Ours, in every row": table.ours, "Departure, in every row": table.departure}
        lines = [f"### {table.paper}: `{table.name}`", *(f"{name}: {text}" for name, text in notes.items() if text)]
        rows = ["| preset | stated | settings | ours | departure |", "|---|---|---|---|---|"]
        for row in table.rows:
            settings = f"`{' '.join(as_typed(row.changes))}`" if row.changes else "the base"
            cells = (f"`{table.preset_name(row)}`", row.features, settings, row.ours or "–", table.departs(row) or "–")
            rows.append(f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |")
        parts.append("\n\n".join([*lines, "\n".join(rows)]))
    return "\n\n".join(parts)


def _part(table: PaperTable) -> Group:
    """The rows of a table, then its title, claim and decisions."""
    from reason.presets import PRESETS

    claims = any(row.claimed for row in table.rows)
    title = f"{table.paper}: {table.measure}" if table.measure else table.paper
    view = Table(title=title, title_justify="left")
    view.add_column("preset", no_wrap=True)
    view.add_column("features")
    if claims:
        view.add_column("claimed", justify="right")
    view.add_column("parameters", justify="right", no_wrap=True)
    for row in table.rows:
        chosen = PRESETS[table.preset_name(row)]
        size = f"{chosen.parameter_count():,}" + (f" ({row.parameters})" if row.parameters else "")
        claimed = [row.claimed] if claims else []
        view.add_row(chosen.name, row.features, *claimed, size)
    notes = {"": table.title, "claimed: ": table.claimed, "ours: ": table.ours, "departure: ": table.departure}
    return Group(view, *(Text(f"{name}{text}") for name, text in notes.items() if text))
