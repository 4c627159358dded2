"""A published table as data: one base, and for each row the difference that it states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from reason.config.overrides import override
from reason.config.schema import Config

PUZZLES = 1000  # base puzzles of Sudoku-Extreme and Maze-Hard as the papers train on them


@dataclass(frozen=True)
class Row:
    """One run of a table. `changes` is what a user would type to get from the table's base to this row."""

    label: str  # of the preset cmm-TABLE-LABEL
    features: str  # as the paper prints them
    claimed: float  # exact accuracy, %
    changes: str = ""
    parameters: str = ""  # as the paper prints them, where it does
    ours: str = ""  # a decision of this row alone


@dataclass(frozen=True)
class PaperTable:
    """A table of the CMM paper."""

    name: str  # cmm-6
    title: str  # its caption in short
    maze: bool
    base: Callable[[], Config]
    rows: tuple[Row, ...]
    ours: str  # what the table leaves open, and what was decided
    epochs: int = 50_000

    def config(self, row: Row) -> Config:
        """The row's whole config; optimizer steps follow from epochs, B, N_accum and N_grad."""
        pairs = dict(change.split("=", 1) for change in row.changes.split())
        config = override(self.base(), pairs)
        rollout, batch = config.rollout, config.training.batch_size
        steps = round(self.epochs * PUZZLES / batch * rollout.accum_steps / rollout.grad_steps)
        every = {"log_every": max(1, min(100, steps // 500)), "checkpoint_every": max(1, min(5000, steps // 100))}
        return config.model_copy(update={"training": config.training.model_copy(update={"steps": steps} | every)})

    def describe(self, row: Row) -> str:
        """What `reason presets` prints: paper, table, row, claim; then what is inherited and what is ours."""
        number, task = self.name.removeprefix("cmm-"), "Maze-Hard" if self.maze else "Sudoku-Extreme"
        head = f"CMM table {number}: {row.features}. Claimed: {row.claimed} % exact on {task}."
        size = f"Parameters as printed: {row.parameters}. " if row.parameters else ""
        difference = f"The row's difference: {row.changes}." if row.changes else "The base of the table itself."
        ours = " ".join(text for text in (self.ours, row.ours) if text)
        return (
            f"{head}\n\n{self.title}\n\n{size}{difference} Inherited: the table's general features and the paper's "
            f"common base (N_super 16, lr 1e-4 after 2,000 warm-up steps, weight decay 1, {self.epochs:,} epochs of "
            f"1,000 puzzles, EMA 0.999, AMP). Ours: {ours}"
        )
