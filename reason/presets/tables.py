"""Presets and published tables, read from papers/*.yaml: each changes settings of a base config."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from datasets_gen.maze import Maze
from datasets_gen.puzzles import Puzzle
from datasets_gen.sudoku import Sudoku
from reason.config.overrides import Changes, as_typed, derive, leaves
from reason.config.schema import Config
from reason.data.puzzles import shape_of_puzzle
from reason.errors import ConfigError
from reason.models.base import Shape
from reason.plugins import installed

PUZZLES = 1000  # base puzzles of Sudoku-Extreme and Maze-Hard as the papers train on them
MADE: dict[str, Callable[[Mapping[str, Any]], Puzzle]] = {  # generator: its options -> puzzle; extensions add theirs
    "sudoku": lambda options: Sudoku(options["size"]),
    "maze": lambda options: Maze(max(size) if isinstance(size := options["size"], tuple) else size),
}


class _Yaml(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML in which 1e-4 is a number, as in YAML 1.2, and a list a tuple, as settings are."""


_Yaml.add_constructor("tag:yaml.org,2002:seq", lambda loader, node: tuple(loader.construct_sequence(node, deep=True)))
_Yaml.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+(\.[0-9]+)?e[-+]?[0-9]+"), list("-+0123456789")
)


@dataclass(frozen=True)
class Base:
    """A config that presets, rows and other bases start from."""

    parent: str | None  # in BASES
    stated: str  # its source, and what is ours; "": as the parent
    changes: Changes  # of the parent, or of the defaults

    @functools.cached_property
    def config(self) -> Config:
        """The whole config, derived once."""
        return derive(BASES[self.parent].config if self.parent else Config(), self.changes)

    @property
    def about(self) -> str:
        """The source of the config, and what is ours."""
        return self.stated or (BASES[self.parent].about if self.parent else "")


def shape_made(options: Mapping[str, Any]) -> Shape:
    """Return the shape of the puzzles that a generator makes with these options, the largest of several sizes."""
    if options["name"] not in MADE:
        raise ConfigError(f"{options['name']} is made by an extension; {installed()}")
    return shape_of_puzzle(MADE[options["name"]](options))


@dataclass(frozen=True)
class Row:
    """One run of a table."""

    label: str  # the preset is TABLE-LABEL
    features: str  # as the paper prints them
    claimed: str = ""  # as the paper prints it, if it claims something about this row
    changes: Changes = field(default_factory=dict)  # of the table's base
    parameters: str = ""  # as the paper prints them, if it does
    ours: str = ""  # a decision of this row only
    variant: bool = False  # not in the paper: another interpretation of one of its rows


def has(config: Config, condition: Changes) -> bool:
    """Return whether a config has these settings: a value, a tuple of values, or another setting's name."""
    values = leaves(config.model_dump())
    wanted = {key: v if isinstance(v, tuple) else (values.get(str(v), v),) for key, v in condition.items()}
    return all(values[key] in allowed for key, allowed in wanted.items())


@dataclass(frozen=True)
class PaperTable:
    """A table or a figure of a paper; several of one name are parts of it with different bases."""

    name: str  # cmm-6
    paper: str  # CMM table 6
    title: str  # its caption in short
    base: Base
    rows: tuple[Row, ...]
    inherited: str  # what every row has from the paper and the base
    ours: str  # what the table leaves open, and what was decided
    departure: str  # how this project differs from the table, its text or its code
    departures: tuple[tuple[Changes, str], ...]  # the same, for the rows that have the settings
    measure: str = ""  # unit of `Row.claimed`: % exact on Sudoku-Extreme
    claimed: str = ""  # of all rows together
    epochs: int | None = None  # of PUZZLES: optimizer steps follow from B, N_accum and N_grad; none: the base's steps

    def preset_name(self, row: Row) -> str:
        """Return the row's name for `train.py`."""
        return f"{self.name}-{row.label}".removesuffix("-")

    def config(self, row: Row) -> Config:
        """Return the row's whole config."""
        config = derive(self.base.config, row.changes)
        if self.epochs is None:
            return config
        steps = round(self.epochs * PUZZLES / (config.drawn / config.training.steps))
        return derive(
            config,
            {
                "training.steps": steps,
                "training.log_every": max(1, min(100, steps // 500)),
                "training.checkpoint_every": max(1, min(5000, steps // 100)),
            },
        )

    def describe(self, row: Row) -> str:
        """Return the text of `reason presets`: paper, row, claim; then what is inherited and what is ours."""
        claim = f" Claimed: {f'{row.claimed} {self.measure}'.strip()}." if row.claimed else ""
        ours = " ".join(filter(None, (self.ours, row.ours)))
        config = self.config(row)
        departure = " ".join([*(text for condition, text in self.departures if has(config, condition)), self.departure])
        paragraphs = (
            f"{self.paper}: {row.features}.{claim}",
            self.title,
            self.claimed and f"Claimed: {self.claimed}.",
            row.parameters and f"Parameters as printed: {row.parameters}.",
            f"The row's difference: {' '.join(as_typed(row.changes))}." if row.changes else "The table's base.",
            f"Inherited: {self.inherited}",
            ours and f"Ours: {ours}",
            departure and f"Departure: {departure}",
        )
        return "\n\n".join(filter(None, paragraphs))


BASES: dict[str, Base] = {}  # each entry of `presets` and `bases` of all files: one may derive from another
SETS: dict[str, Changes] = {}  # the same for puzzle sets


def read_papers(file: Path) -> tuple[dict[str, dict[str, Base]], list[PaperTable]]:
    """Return the presets of a file by the titles of their groups, and every table; adds to BASES and SETS."""
    paper = yaml.load(file.read_text(encoding="utf-8"), _Yaml)
    names = paper.get("settings", {})
    SETS.update({name: _settings(entry, names) for name, entry in paper.get("sets", {}).items()})
    groups = paper.get("presets", {})
    for entries in (*groups.values(), paper.get("bases", {})):
        for name, entry in entries.items():
            parent, about = entry.pop("from", None), entry.pop("about", "").strip()
            puzzles = SETS[entry.pop("puzzles")] if "puzzles" in entry else {}
            BASES[name] = Base(parent, about, puzzles | _settings(entry, names))
    presets = {title: {name: BASES[name] for name in entries} for title, entries in groups.items()}
    return presets, [_table(paper["every_table"], entry, names) for entry in paper.get("tables", [])]


def _table(every: dict[str, Any], own: dict[str, Any], names: dict[str, str]) -> PaperTable:
    """Build a table from its entry in the file and the values that all tables of the file share."""
    table = every | own
    base = BASES[table.pop("base")]
    rows, besides = table.pop("rows"), _settings(table.pop("every_row", {}), names)
    departures = [*own.get("departures", []), *every.get("departures", [])]
    table |= {
        "inherited": table.get("inherited", base.about),
        "ours": "; ".join([*own.get("ours", []), *every.get("ours", [])]),
        "departures": tuple((_settings(each["where"], names), each["text"]) for each in departures),
    }
    return PaperTable(**table, base=base, rows=tuple(_row(label, rows, besides, names) for label in rows))


def _row(label: str | int, rows: dict[Any, Any], besides: Changes, names: dict[str, str]) -> Row:
    settings = dict(rows[label])
    variant = settings.pop("variant", None)
    features = f"variant (ours): {variant}" if variant else settings.pop("features")
    claimed, parameters, ours = (str(settings.pop(key, "")) for key in ("claimed", "parameters", "ours"))
    like = _row(settings.pop("like"), rows, {}, names).changes if "like" in settings else {}
    return Row(
        str(label), features, claimed, like | _settings(settings, names) | besides, parameters, ours, bool(variant)
    )


def _settings(entry: dict[str, Any], names: dict[str, str]) -> Changes:
    """Return the settings of an entry by their full names, also as values."""
    return {names.get(key, key): names.get(str(value), value) for key, value in entry.items()}
