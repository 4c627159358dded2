"""A published table as data: one base, and for each row the settings that it changes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field

from reason.config.overrides import Changes, as_typed, derive
from reason.config.schema import Config
from reason.models.base import Shape

PUZZLES = 1000  # base puzzles of Sudoku-Extreme and Maze-Hard as the papers train on them


Departure = tuple[Callable[[Config], bool], str]  # whether a row's config has it, and what is done otherwise


@dataclass(frozen=True)
class Row:
    """One run of a table."""

    label: str  # the preset is TABLE-LABEL
    features: str  # as the paper prints them
    claimed: str = ""  # as the paper prints it, where it claims something of this row
    changes: Changes = field(default_factory=dict)  # of the table's base
    parameters: str = ""  # as the paper prints them, where it does
    ours: str = ""  # a decision of this row alone
    variant: bool = False  # not in the paper: another reading of a row that is


@dataclass(frozen=True)
class PaperTable:
    """A table or a figure of a paper; several of one name are parts of it with different bases."""

    name: str  # cmm-6
    paper: str  # CMM table 6
    title: str  # its caption in short
    base: Callable[[], Config]
    shape: Shape
    rows: tuple[Row, ...]
    inherited: str  # what every row has from the paper and the base
    ours: str = ""  # what the table leaves open, and what was decided
    departure: str = ""  # where this project does something else than what the table, its text or its code states
    departures: tuple[Departure, ...] = ()  # the same, of the rows whose config it holds for
    measure: str = ""  # unit of `Row.claimed`: % exact on Sudoku-Extreme
    claimed: str = ""  # of all rows together
    epochs: int | None = (
        None  # optimizer steps follow from epochs of `PUZZLES`, B, N_accum and N_grad; none: the base's
    )

    @functools.cached_property
    def common(self) -> Config:
        """The base's config, derived once."""
        return self.base()

    def preset_name(self, row: Row) -> str:
        """The row's name for `train.py`."""
        return f"{self.name}-{row.label}".removesuffix("-")

    def config(self, row: Row) -> Config:
        """The row's whole config."""
        config = derive(self.common, row.changes)
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

    def decisions(self, row: Row) -> str:
        """What is ours in a row, of the table's and its own."""
        return " ".join(filter(None, (self.ours, row.ours)))

    def departs(self, row: Row) -> str:
        """What is done otherwise in a row, beside the whole table's."""
        return " ".join(text for held, text in self.departures if held(self.config(row)))

    def claim(self, row: Row) -> str:
        """The row's claim with its unit, or ""."""
        return f"{row.claimed} {self.measure}".strip() if row.claimed else ""

    def describe(self, row: Row) -> str:
        """The text of `reason presets`: paper, row, claim; then what is inherited and what is ours."""
        claim = f" Claimed: {claim}." if (claim := self.claim(row)) else ""
        together = f"Claimed: {self.claimed}." if self.claimed else ""
        size = f"Parameters as printed: {row.parameters}." if row.parameters else ""
        changed = f"The row's difference: {' '.join(as_typed(row.changes))}." if row.changes else "The table's base."
        ours = self.decisions(row)
        departure = " ".join(filter(None, (self.departs(row), self.departure)))
        head = f"{self.paper}: {row.features}.{claim}"
        inherited = f"Inherited: {' '.join(self.inherited.split())}"
        return "\n\n".join(
            filter(
                None,
                (
                    head,
                    self.title,
                    together,
                    size,
                    changed,
                    inherited,
                    ours and f"Ours: {ours}",
                    departure and f"Departure: {departure}",
                ),
            )
        )
