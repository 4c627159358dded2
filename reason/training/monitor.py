"""Validation accuracy during training, which selects the best checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reason.training.log import MetricsLog
    from reason.training.loop import Trainer


@dataclass(frozen=True)
class Validation:
    """Accuracy of the averaged weights after the trained steps (N_super; T of a looped model), without halting."""

    step: int  # optimizer steps
    exact: float  # share of exact puzzles, as `Accuracy` counts them
    cell: float  # mean over puzzles of the share of labelled cells that are right
    puzzles: int
    seconds: float

    def beats(self, other: Validation | None) -> bool:
        """Compare exact accuracy, then cell accuracy; in a tie the earlier one wins (ours)."""
        return other is None or (self.exact, self.cell) > (other.exact, other.cell)


def validate(trainer: Trainer, log: MetricsLog) -> bool:
    """Evaluate the validation split if it is due; return True if the result is the best so far."""
    c = trainer.config.training
    step = trainer.step
    if trainer.monitor is None or (step % (c.monitor.every or c.checkpoint_every) and step != c.steps):
        return False
    validation = trainer.monitor.validate(trainer.model, trainer.ema, step)
    log.write({"step": step, **{f"monitor/{k}": v for k, v in vars(validation).items() if k != "step"}})
    if best := validation.beats(trainer.best):
        trainer.best = validation
    return best
