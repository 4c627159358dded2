"""The dynamics of a few solved and failed puzzles, in float64."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from reason.evaluation.evaluator import Columns, Consumer, Evaluator
from reason.evaluation.studies.boards import examples_of
from reason.extensions.studies import probes
from reason.models.states import precise
from reason.report.chart import Chart, legend
from reason.report.palette import BLUE, GREY, ORANGE
from reason.report.section import Results, Section, Table, cells, number
from reason.rollout import unroll

PROBED = 8  # number of solved puzzles, and of failed ones
SPECTRA = 2  # for so many of each also the spectral radius and the trace, which are the most expensive
STEPS = 16  # maximum, for the return of a pushed state and the growth rate


class Dynamics(Consumer):
    """Trajectories, spectra, returns, Lyapunov exponents and oscillation of puzzles chosen from Accuracy's columns."""

    order = 80

    def __init__(self, evaluator: Evaluator):
        super().__init__(evaluator)
        self.cost = (
            f"probes: up to {2 * PROBED} puzzles in float64, {2 * SPECTRA} of them with spectral radius and trace"
        )

    def result(self, seen: Columns) -> dict[str, Any]:
        """Return a row for each puzzle, and the spectra of the first solved and failed ones."""
        evaluator, model = self.evaluator, precise(self.evaluator.model)
        solved, failed = examples_of(seen["exact"], PROBED)
        steps = min(evaluator.steps, STEPS)
        names = ("puzzles", "spectra", "returns", "growth_rate", "oscillation")
        measures: dict[str, list[Any]] = {name: [] for name in names}
        for place in solved + failed:
            rows = evaluator.examples[place : place + 1]
            batch, example = evaluator.data.take(rows), int(rows)
            with torch.no_grad():
                records = list(unroll(model, batch, evaluator.steps, evaluator.start(rows)))
                last = replace(records[-1], rows=rows, rules=evaluator.rules)
                points = torch.cat([probes.joined(state) for state in (records[0].before, *(r.state for r in records))])
                path, at = probes.trajectory(points, bool(last.exact)), (model, last.state, last.context)
                # the pass had another precision, so its result may differ
                measures["puzzles"].append({"example": example, **path, "solved_in_pass": place in solved})
                measures["returns"].append(probes.perturb_and_return(*at, steps))
                measures["growth_rate"].append(probes.growth_rate(*at, steps))
                measures["oscillation"].append(probes.oscillation(*at))
                if place in (*solved[:SPECTRA], *failed[:SPECTRA]):
                    measured = {"radius": probes.radius(*at), "trace": probes.trace(*at)}
                    measures["spectra"].append({"example": example, "solved": path["solved"], **measured})
        return {"dynamics": measures}


LINES: dict[bool, dict[str, Any]] = {
    True: {"color": BLUE, "lw": 1, "alpha": 0.8},
    False: {"color": ORANGE, "ls": "--", "lw": 1, "alpha": 0.8},
}
NAMES = {True: "solved", False: "failed"}


def _tables(results: Results) -> list[Table]:
    study = results["dynamics"]
    ends = Counter((NAMES[row["solved"]], NAMES[row["solved_in_pass"]], row["end"]) for row in study["puzzles"])
    rows = [[*what, str(count)] for what, count in sorted(ends.items(), reverse=True)]
    columns = ("in float64", f"in the pass ({results.get('precision', 'its precision')})", "end", "count")
    spectra = [
        [str(row["example"]), NAMES[row["solved"]], *cells(row, radius=".3f", trace=".3f")] for row in study["spectra"]
    ]
    tables = [Table("ends of the probed trajectories", columns, rows, left=(0, 1, 2))]
    columns = ("puzzle", "", "spectral radius", "trace / N")
    return [*tables, Table("spectra of a cycle at the last step, in float64", columns, spectra, left=(0, 1))]


def _charts(results: Results) -> list[Chart]:
    study = results["dynamics"]
    puzzles = study["puzzles"]

    def chart(
        title: str, values: list[list[float]], below: str, scale: str, first: int = 0, level: float | None = None
    ) -> Chart:  # `values` of each puzzle, from number `first` on

        def draw(axes: Axes) -> None:
            axes.set_xlabel(below)
            axes.set_yscale(scale)
            if level is not None:
                axes.axhline(level, color=GREY, ls=":", lw=1)
            labels = dict(NAMES)  # only one line of each kind has a label
            for puzzle, row in zip(puzzles, values, strict=True):
                solved = puzzle["solved"]
                seen = np.array(row, float)  # None becomes nan
                axes.plot(range(first, len(row) + first), seen, label=labels.pop(solved, None), **LINES[solved])
            axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
            legend(axes)

        ends = [f"{number(row[-1])} ({NAMES[p['solved']]})" for row, p in zip(values, puzzles, strict=True) if row]
        return Chart(title, f"last: {', '.join(ends) or 'none'}", draw)

    residuals, norms = ([puzzle[key] for puzzle in puzzles] for key in ("residual", "norm"))
    steps = "supervision steps"
    return [
        chart("residual ‖z′ − z‖/‖z‖", residuals, steps, "log", first=1, level=probes.AT_REST),
        chart("norm ‖z‖", norms, steps, "linear"),
        chart("distance of a pushed state", study["returns"], "steps after the push", "log"),
        chart("oscillation of the low state", study["oscillation"], "update inside a step", "linear", first=1, level=1),
    ]


def _note(results: Results) -> str:
    puzzles = results["dynamics"]["puzzles"]
    other = sum(puzzle["solved"] != puzzle["solved_in_pass"] for puzzle in puzzles)
    return (
        "Probes use a float64 copy of the model. Puzzles solved only in float64 or only in the pass: "
        f"{other} of {len(puzzles)}. Solid: solved in float64, dashed: failed. A spectral radius above 1 means "
        "that distances grow along the fastest direction; “–”: not converged."
    )


DYNAMICS = Section("dynamics", "Dynamics", _tables, {"dynamics": _charts}, _note, precision="float64", order=80)
