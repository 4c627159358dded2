"""Published tables, read from papers/*.yaml: each has a base config, and each row the settings that it changes."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from reason.config.overrides import Changes, as_typed, derive, leaves, tuples
from reason.config.schema import Config
from reason.models.base import Shape
from reason.presets.bases import SETS

PUZZLES = 1000  # base puzzles of Sudoku-Extreme and Maze-Hard as the papers train on them


class _Yaml(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML in which 1e-4 is a number, as in YAML 1.2."""


_Yaml.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+(\.[0-9]+)?e[-+]?[0-9]+"), list("-+0123456789")
)


@dataclass(frozen=True)
class Base:
    """A config that presets, rows and other bases start from."""

    parent: Base | None
    puzzles: str | None  # a name of SETS; none: the parent's
    about: str
    changes: Changes  # of the parent, or of the defaults

    @functools.cached_property
    def config(self) -> Config:
        """The whole config, derived once."""
        data = SETS[self.puzzles][0] if self.puzzles else {}
        return derive(self.parent.config if self.parent else Config(), data | self.changes)

    @property
    def shape(self) -> Shape:
        """The shape of its puzzles."""
        if self.puzzles:
            shape = SETS[self.puzzles][1]
            return shape() if callable(shape) else shape
        assert self.parent is not None, "a base without a parent names its puzzles"
        return self.parent.shape


@dataclass(frozen=True)
class Row:
    """One run of a table."""

    label: str  # the preset is TABLE-LABEL
    features: str  # as the paper prints them
    claimed: str = ""  # as the paper prints it, where it claims something of this row
    changes: Changes = field(default_factory=dict)  # of the table's base
    parameters: str = ""  # as the paper prints them, where it does
    ours: str = ""  # a decision of this row alone
    variant: bool = False  # not in the paper: another reading of one of its rows


@dataclass(frozen=True)
class Departure:
    """What this project does otherwise in the rows whose config has the settings of `where`."""

    where: Changes  # a value, a tuple of values, or the name of a setting that is to have the same value
    text: str

    def holds(self, config: Config) -> bool:
        """Whether the config is one of those."""
        values = leaves(config.model_dump())
        wanted = {
            key: each if isinstance(each, tuple) else (values.get(str(each), each),) for key, each in self.where.items()
        }
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
    departure: str  # where this project does something else than what the table, its text or its code states
    departures: tuple[Departure, ...]  # the same, of some rows
    measure: str = ""  # unit of `Row.claimed`: % exact on Sudoku-Extreme
    claimed: str = ""  # of all rows together
    epochs: int | None = None  # of PUZZLES: optimizer steps follow from B, N_accum and N_grad; none: the base's steps

    def preset_name(self, row: Row) -> str:
        """The row's name for `train.py`."""
        return f"{self.name}-{row.label}".removesuffix("-")

    def config(self, row: Row) -> Config:
        """The row's whole config."""
        config = derive(self.base.config, row.changes)
        if self.epochs is None:
            return config
        rollout, batch = config.rollout, config.training.batch_size
        steps = round(self.epochs * PUZZLES / batch * rollout.accum_steps / rollout.grad_steps)
        return derive(
            config,
            {
                "training.steps": steps,
                "training.log_every": max(1, min(100, steps // 500)),
                "training.checkpoint_every": max(1, min(5000, steps // 100)),
            },
        )

    def describe(self, row: Row) -> str:
        """The text of `reason presets`: paper, row, claim; then what is inherited and what is ours."""
        claim = f" Claimed: {f'{row.claimed} {self.measure}'.strip()}." if row.claimed else ""
        ours = " ".join(filter(None, (self.ours, row.ours)))
        config = self.config(row)
        departure = " ".join([*(each.text for each in self.departures if each.holds(config)), self.departure])
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


BASES: dict[str, Base] = {}  # of the papers read so far: later ones may derive from those of earlier ones


def read_papers(folder: Path, papers: Iterable[str]) -> tuple[dict[str, Base], list[PaperTable]]:
    """The authors' own presets by name, and every table, of the files PAPER.yaml of a folder."""
    bases, presets, tables = BASES, dict[str, Base](), list[PaperTable]()
    for paper_name in papers:
        paper = yaml.load((folder / f"{paper_name}.yaml").read_text(encoding="utf-8"), _Yaml)
        names = paper.get("settings", {})
        for name, entry in (paper.get("presets", {}) | paper["bases"]).items():
            parent = bases[entry.pop("from")] if "from" in entry else None
            about = entry.pop("about", parent.about if parent else "").strip()
            bases[name] = Base(parent, entry.pop("puzzles", None), about, _settings(entry, names))
        presets |= {name: bases[name] for name in paper.get("presets", {})}
        tables += [_table(paper["every_table"], entry, bases, names) for entry in paper.get("tables", [])]
    return presets, tables


def _table(every: dict[str, Any], own: dict[str, Any], bases: dict[str, Base], names: dict[str, str]) -> PaperTable:
    """A table of its entry in the file and of what all tables of the file share."""
    table = every | own
    base = bases[table.pop("base")]
    rows, besides = table.pop("rows"), _settings(table.pop("every_row", {}), names)
    departures = [*own.get("departures", []), *every.get("departures", [])]
    table |= {
        "inherited": table.get("inherited", base.about),
        "ours": "; ".join([*own.get("ours", []), *every.get("ours", [])]),
        "departures": tuple(Departure(_settings(each["where"], names), each["text"]) for each in departures),
    }
    return PaperTable(**table, base=base, rows=tuple(_row(label, rows, besides, names) for label in rows))


def _row(label: str | int, rows: dict[Any, Any], besides: Changes, names: dict[str, str]) -> Row:
    own = dict(rows[label])
    variant = own.pop("variant", None)
    features = f"variant (ours): {variant}" if variant else own.pop("features")
    claimed, parameters, ours = (str(own.pop(key, "")) for key in ("claimed", "parameters", "ours"))
    like = _row(own.pop("like"), rows, {}, names).changes if "like" in own else {}
    return Row(str(label), features, claimed, like | _settings(own, names) | besides, parameters, ours, bool(variant))


def _settings(entry: dict[str, Any], names: dict[str, str]) -> Changes:
    """The settings of an entry by their full names, also where one stands for a value; its lists as tuples."""
    return {names.get(key, key): tuples(names.get(str(value), value)) for key, value in entry.items()}
