"""Measurements at every supervision step (rules, halting, loss, residual), and the page's first section."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from torch import Tensor

from reason.evaluation.evaluator import Columns, Consumer, Evaluator, StepColumns, narrow
from reason.losses.lm import cell_loss
from reason.models.base import IGNORE, Readout
from reason.models.states import residual
from reason.report.chart import Chart, by_step, curves_by_step, errors_axis, plot_error, plot_exact, steps_axis
from reason.report.palette import GREEN, ORANGE, PINK
from reason.report.section import Results, Section, Table, interval, rows_shown, share
from reason.rollout import StepRecord, exact_logit
from reason.settings.rollout import Halting


class Rules(Consumer):
    """`valid` (T, N) bool: the answer obeys the rules. The host checks new answers once per batch."""

    def __init__(self, evaluator: Evaluator):
        super().__init__(evaluator)
        puzzle = evaluator.puzzle
        self._solved = puzzle.solved if puzzle is not None and puzzle.has_rules else None
        self.steps = evaluator.steps if self._solved is not None else 0
        self._kept = StepColumns(self.steps)
        self._so_far = evaluator.search is not None or (puzzle is not None and puzzle.multiple_solutions)

    def observe(self, record: StepRecord) -> Columns | None:
        """Keep the answers of a batch, then check them."""
        assert self._solved is not None
        self._kept.add({"answers": narrow(record.answer, record)})
        if record.step < self.steps:
            return None
        answers = self._kept.take()["answers"]
        questions = narrow(record.batch.inputs, record).cpu().numpy()
        instances = None if record.rows is None else self.evaluator.data.instances_of(record.rows)
        valid = np.zeros(answers.shape[:2], bool)  # (T, B)
        new = np.ones(len(questions), bool)
        for step, answer in enumerate(answers):
            if step:
                valid[step], new = valid[step - 1], (answer != answers[step - 1]).any(-1)
            valid[step, new] = self._solved(questions[new], answer[new], None if instances is None else instances[new])
        return {"valid": valid}

    def result(self, seen: Columns) -> dict[str, Any]:
        """Return the share of puzzles whose answer obeys the rules, by step; None if there are no rules.

        With several solutions or added clues, also return the share that had such an answer at any step so far, as
        constraint solvers report it.
        """
        if "valid" not in seen:
            return {"valid_by_step": None}
        results = {"valid_by_step": seen["valid"].mean(1).tolist()}
        if self._so_far:
            results["held_by_step"] = np.logical_or.accumulate(seen["valid"]).mean(1).tolist()
        return results


def halt_signal(readout: Readout, halting: Halting | None) -> Tensor | None:
    """Return the halting score (halt if > 0): q_halt, or q_halt − q_continue under Q-learning; see `exact_logit`."""
    q = exact_logit(readout, halting)
    if q is None or halting != "q-learning" or readout.q_continue is None:
        return q
    return q - readout.q_continue.float()


def scored_mean(cells: Tensor, labels: Tensor) -> Tensor:
    """Return (B,) float32: the mean of (B, S) over the cells whose label (B, S) is scored."""
    scored = labels != IGNORE
    return (torch.where(scored, cells, 0.0).sum(-1) / scored.sum(-1).clamp(min=1)).float()


class Signals(Consumer):
    """`q`, `residual` and `loss` (T, N) float32: the first two measure confidence, the last is the mean −ln p."""

    def __init__(self, evaluator: Evaluator):
        super().__init__(evaluator)
        self._kept = StepColumns(self.steps)

    def observe(self, record: StepRecord) -> Columns | None:
        """Keep residual, loss and halting signal of a step."""
        labels = record.batch.labels
        kept = {
            "residual": -residual(record.before, record.state).float(),
            "loss": scored_mean(cell_loss(record.logits, labels, self.evaluator.likelihood), labels),
        }
        if (q := halt_signal(record.readout, self.evaluator.halting)) is not None:
            kept["q"] = q
        self._kept.add(kept)
        return self._kept.take() if record.step == self.steps else None

    def result(self, seen: Columns) -> dict[str, Any]:
        """Return means by step: share that halts, −ln p, ‖z_k − z_{k−1}‖/‖z_{k−1}‖ (inf from a start at 0)."""
        return {
            "halted_by_step": (seen["q"] > 0).mean(1).tolist() if "q" in seen else None,
            "loss_by_step": seen["loss"].mean(1, dtype=np.float64).tolist(),
            "residual_by_step": (-seen["residual"].mean(1, dtype=np.float64)).tolist(),
        }


SO_FAR = "held so far"
COLUMNS = ("step", "exact", "95 % interval", "rules hold", SO_FAR, "cells", "says halt")


def _tables(results: Results) -> list[Table]:
    nothing, trained = [None] * results["steps"], results["trained_steps"]
    valid, halted = (results.get(f"{key}_by_step") or nothing for key in ("valid", "halted"))
    held = results.get("held_by_step")
    rows = [
        [
            f"{step} (trained)" if step == trained else str(step),
            share(exact),
            interval(exact, results["puzzles"]),
            share(valid[step - 1]),
            *([share(held[step - 1])] if held else []),
            share(results["cell_by_step"][step - 1]),
            share(halted[step - 1]),
        ]
        for step, exact in enumerate(results["exact_by_step"], start=1)
    ]
    shown = rows_shown(results["steps"], trained)
    columns = [name for name in COLUMNS if held or name != SO_FAR]
    return [Table("accuracy by supervision step", columns, rows, first=shown)]


def _charts(results: Results) -> list[Chart]:
    exact, puzzles, steps = results["exact_by_step"], results["puzzles"], range(1, results["steps"] + 1)
    valid = results.get("valid_by_step")

    def curve(axes: Axes) -> None:
        plot_exact(axes, exact, puzzles, "exact")
        axes.plot(steps, results["cell_by_step"], color=ORANGE, ls="--", label="cells")
        if valid and valid != exact:
            axes.plot(steps, valid, color=GREEN, ls=":", lw=2, label="rules hold")
        if held := results.get("held_by_step"):
            axes.plot(steps, held, color=PINK, ls="-.", lw=2, label="rules held so far")
        curves_by_step(axes, f"share of {puzzles:,} puzzles ({results['split']})", results)

    def error(axes: Axes) -> None:
        plot_error(axes, exact, puzzles, "exact")
        errors_axis(axes)
        steps_axis(axes, results)

    return [
        Chart("exact: whole puzzles right", by_step(exact, results), curve),
        Chart("error, 1 − exact", by_step([1 - value for value in exact], results), error),
    ]


NOTE = """Each step applies the same network again. Dotted: the steps taken in training. “Says halt”: the share
whose halting head would stop here. Intervals are Wilson's at 95 %. No error at all is drawn at half a puzzle."""

BY_STEP = Section(
    "exact_by_step", "Accuracy by supervision step", _tables, {"accuracy_by_step": _charts}, lambda _: NOTE, order=0
)
