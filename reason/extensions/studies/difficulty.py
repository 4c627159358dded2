"""Accuracy by difficulty."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from datasets_gen.puzzles import Puzzle
from reason.evaluation.evaluator import Columns, Consumer
from reason.report.chart import Chart, by_step, curves_by_step
from reason.report.palette import styled
from reason.report.section import Results, Section, Table, interval, share

Bins = tuple[str, list[str], np.ndarray]  # name of the measure, names of the bins, the bin of every puzzle (N,)
KEYS = ("exact", "valid")
MANY = 8  # more different values than this are put into quartiles


class Difficulty(Consumer):
    """Accuracy in bins of puzzles, from the columns of Accuracy and Rules."""

    def result(self, seen: Columns) -> dict[str, Any]:
        """Return exact and valid by step and bin, easiest first; None if no measure differs between puzzles."""
        data, puzzle, examples = self.evaluator.data, self.evaluator.puzzle, self.evaluator.examples
        statistics = {} if puzzle is None else puzzle.features(*data.tokens_of(examples))
        rated = None if data.ratings is None else np.asarray(data.ratings[data.puzzle_of(examples).cpu().numpy()])
        if (bins := difficulty(puzzle, rated, statistics)) is None:
            return {"difficulty": None}
        name, names, index = bins
        rows = [
            {"bin": label, "puzzles": int((index == b).sum())}
            | {f"{key}_by_step": seen[key][:, index == b].mean(1).tolist() if key in seen else None for key in KEYS}
            for b, label in enumerate(names)
        ]
        return {"difficulty": {"by": name, "bins": rows}}


def difficulty(puzzle: Puzzle | None, ratings: np.ndarray | None, statistics: Mapping[str, np.ndarray]) -> Bins | None:
    """Return (measure, names of the bins, bin of every puzzle (N,)), or None if there is only one bin.

    The measure is depth, if the family has it; else the rating; else the family's first statistic with two bins (ours).
    """
    by_depth = {name: values for name, values in statistics.items() if name == "depth"}
    rated = {} if ratings is None else {f"rating ({puzzle.rating_name})" if puzzle else "rating": ratings}
    options = ((name, *binned(values)) for name, values in (by_depth | rated | dict(statistics)).items())
    return next((option for option in options if len(option[1]) > 1), None)


def binned(values: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Return names of bins and the bin of each value (N,): one bin for each of up to eight values, else quartiles.

    Puzzles without a rating (NaN) are in a separate bin, the last.
    """
    if (missing := np.isnan(values)).any():
        names, index = binned(values[~missing])
        bins = np.full(len(values), len(names))
        bins[~missing] = index
        return [*names, "not rated"], bins
    different, index = np.unique(values, return_inverse=True)
    if len(different) <= MANY:
        return [f"{value:g}" for value in different], index
    edges = np.unique(np.quantile(values, [0, 0.25, 0.5, 0.75], method="lower"))
    index = np.searchsorted(edges, values, side="right") - 1
    return [f"{values[index == b].min():g} to {values[index == b].max():g}" for b in range(len(edges))], index


def _tables(results: Results) -> list[Table]:
    found = results["difficulty"]
    steps = sorted({1, min(results["trained_steps"], results["steps"]), results["steps"]})
    columns = (found["by"], "puzzles", "exact at step 1", *(f"at {step}" for step in steps[1:]), "95 % interval")
    rows = [
        [
            row["bin"],
            str(row["puzzles"]),
            *(share(row["exact_by_step"][step - 1]) for step in steps),
            interval(row["exact_by_step"][-1], row["puzzles"]),
        ]
        for row in found["bins"]
    ]
    return [Table("by difficulty", columns, rows)]


def _charts(results: Results) -> list[Chart]:
    found = results["difficulty"]

    def draw(axes: Axes) -> None:
        for index, row in enumerate(found["bins"]):
            exact, label = row["exact_by_step"], f"{row['bin']} (n {row['puzzles']})"
            steps = range(1, len(exact) + 1)
            axes.plot(steps, exact, label=label, markevery=max(1, len(exact) // 16), **styled(index))
        curves_by_step(axes, "exact", results)

    alt_text = "; ".join(f"{row['bin']}: {by_step(row['exact_by_step'], results)}" for row in found["bins"])
    return [Chart(f"exact by {found['by']}", alt_text, draw)]


DIFFICULTY = Section("difficulty", "By difficulty", _tables, {"difficulty": _charts}, order=20)
