"""The dynamics of a few solved and failed puzzles, in float64."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from reason.evaluation.evaluator import Columns, Consumer, Evaluator
from reason.evaluation.states import precise, rows_of
from reason.evaluation.studies.boards import examples_of
from reason.extensions.studies import probes
from reason.extensions.studies.probes import AT_REST, trajectories
from reason.report.chart import Chart, legend, log_axis, numbers
from reason.report.palette import BLUE, GREY, ORANGE
from reason.report.section import Results, Section, Table, number
from reason.rollout import last_step, unroll


class Dynamics(Consumer):
    """Trajectories, spectra, returns, Lyapunov exponents and oscillation; which puzzles, from Accuracy's columns."""

    place = 80

    def __init__(self, evaluator: Evaluator):
        super().__init__(evaluator)
        probed = min(2 * evaluator.settings.probed, len(evaluator.examples))
        spectra = min(2 * evaluator.settings.spectra, probed)
        self.cost = f"probes: up to {probed} puzzles in float64, {spectra} of them with spectral radius and trace"

    def result(self, seen: Columns) -> dict[str, Any]:
        """A row a puzzle; of the first solved and failed ones the spectra too."""
        settings, steps = self.evaluator.settings, self.evaluator.steps
        model = precise(self.evaluator.model)
        solved, failed = examples_of(seen["exact"], settings.probed)
        chosen = self.evaluator.examples[solved + failed]
        batch, examples = self.evaluator.data.take(chosen), chosen.tolist()
        paths = trajectories(model, batch, examples, steps, start=self.evaluator.start, rules=self.evaluator.rules)
        verdicts = [True] * len(solved) + [False] * len(failed)  # of the pass, in its own precision
        spectral = [*range(min(settings.spectra, len(solved)))]
        spectral += [len(solved) + i for i in range(min(settings.spectra, len(failed)))]
        with torch.no_grad():
            last = last_step(unroll(model, batch, steps, start=self.evaluator.start(chosen)))
            state, context = last.state, last.context
            chosen_rows = torch.tensor(spectral, dtype=torch.long, device=context.x.device)
            few, cut = rows_of(state, chosen_rows), context.rows(chosen_rows)
            returns = probes.perturb_and_return(model, state, context, min(steps, 16))
            spectra = zip(
                spectral,
                probes.radius(model, few, cut) if spectral else [],
                probes.trace(model, few, cut) if spectral else [],
                strict=True,
            )
            return {
                "dynamics": {
                    "puzzles": [
                        asdict(path) | {"solved_in_pass": verdict}
                        for path, verdict in zip(paths, verdicts, strict=True)
                    ],
                    "spectra": [
                        {"example": examples[row], "solved": paths[row].solved, "radius": r, "trace": t}
                        for row, r, t in spectra
                    ],
                    "returns": returns.T.tolist(),
                    "growth_rate": probes.growth_rate(model, state, context, min(steps, 16)).tolist(),
                    "oscillation": probes.oscillation(model, state, context).T.tolist(),
                }
            }


LINES: dict[bool, dict[str, Any]] = {
    True: {"color": BLUE, "lw": 1, "alpha": 0.8},
    False: {"color": ORANGE, "ls": "--", "lw": 1, "alpha": 0.8},
}


def _tables(results: Results) -> list[Table]:
    found = results["dynamics"]
    ends = Counter((_state(puzzle), _said(puzzle["solved_in_pass"]), puzzle["end"]) for puzzle in found["puzzles"])
    rows = [[*what, str(count)] for what, count in sorted(ends.items(), reverse=True)]
    columns = ("in float64", f"in the pass ({results.get('precision', 'its precision')})", "end", "count")
    tables = [Table("how the probed trajectories end", columns, rows, left=(0, 1, 2))]
    spectra = [
        [str(row["example"]), _state(row), *(number(row[key], ".3f") for key in ("radius", "trace"))]
        for row in found["spectra"]
    ]
    if spectra:
        columns = ("puzzle", "", "spectral radius", "trace / N")
        tables.append(Table("spectra of a cycle at the last step, in float64", columns, spectra, left=(0, 1)))
    return tables


def _state(row: Results) -> str:
    return _said(row["solved"])


def _said(solved: bool) -> str:
    return "solved" if solved else "failed"


def _charts(results: Results) -> list[Chart]:
    found = results["dynamics"]
    puzzles = found["puzzles"]

    def chart(
        title: str,
        values: Sequence[Sequence[float | None]],  # of each puzzle, from number `first` on
        below: str = "supervision steps",
        last: str = "last",
        first: int = 0,
        level: float | None = None,
        log: bool = False,
    ) -> Chart:
        def draw(axes: Axes) -> None:
            axes.set_xlabel(below)
            if level is not None:
                axes.axhline(level, color=GREY, ls=":", lw=1)
            named: set[bool] = set()
            for puzzle, row in zip(puzzles, values, strict=True):
                solved = puzzle["solved"]
                label = None if solved in named else _said(solved)
                axes.plot(range(first, len(row) + first), numbers(row), label=label, **LINES[solved])
                named.add(solved)
            axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
            if log:
                log_axis(axes, "y")
            legend(axes)

        ends = [f"{number(row[-1])} ({_state(p)})" for row, p in zip(values, puzzles, strict=True) if row]
        return Chart(title, f"{last}: {', '.join(ends) or 'none'}", draw)

    residuals, norms = ([puzzle[key] for puzzle in puzzles] for key in ("residual", "norm"))
    update = "update inside a step"
    return [
        chart("residual ‖z′ − z‖/‖z‖", residuals, first=1, level=AT_REST, log=True),
        chart("norm ‖z‖", norms),
        chart("distance of a pushed state", found["returns"], "steps after the push", log=True),
        chart("oscillation of the low state", found["oscillation"], update, "last update", first=1, level=1),
    ]


def _planes(results: Results) -> list[Chart]:
    def drawing(puzzle: Results) -> Callable[[Axes], None]:
        def draw(axes: Axes) -> None:
            x, y = np.transpose([numbers(point) for point in puzzle["plane"]])
            colour = LINES[puzzle["solved"]]["color"]
            axes.plot(x, y, color=colour, lw=0.8, alpha=0.8, marker=".", ms=2.5)
            axes.plot(x[0], y[0], "o", mfc="none", color=colour, ms=6)
            axes.plot(x[-1], y[-1], "s", color=colour, ms=5)
            axes.set(xticks=[], yticks=[])

        return draw

    return [
        Chart(
            f"{puzzle['example']}: {puzzle['end']}",
            f"{_state(puzzle)}, {sum(puzzle['explained']):.0%} of the variance in this plane",
            drawing(puzzle),
            size=(2.4, 1.9),
        )
        for puzzle in results["dynamics"]["puzzles"]
    ]


def _note(results: Results) -> str:
    puzzles, precision = results["dynamics"]["puzzles"], results.get("precision", "its precision")
    other = sum(puzzle["solved"] != puzzle["solved_in_pass"] for puzzle in puzzles)
    count = f"{other} of {len(puzzles)} probed puzzles" if other else f"None of {len(puzzles)} probed puzzles"
    verb = "are" if other > 1 else "is"
    return (
        f"Probes are of a float64 copy of the model, accuracy is of the pass in {precision}: {count} {verb} solved in "
        "one and not in the other. Solid: solved in float64, dashed: failed. A spectral radius above 1 spreads along "
        "the map's fastest direction; “–”: not converged. Trajectories: each in its own two principal components, from "
        "the circle to the square."
    )


DYNAMICS = Section(
    "dynamics",
    "Dynamics",
    _tables,
    {"dynamics": _charts, "trajectories": _planes},
    _note,
    precision="float64",
    place=80,
)
