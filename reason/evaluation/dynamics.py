"""The dynamics of a few solved and failed puzzles, in float64."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import torch

from reason.evaluation import probes
from reason.evaluation.boards import examples_of
from reason.evaluation.evaluator import Columns, Consumer, Evaluator
from reason.evaluation.trajectories import trajectories
from reason.rollout import last_step, unroll


class Dynamics(Consumer):
    """Trajectories, spectra, returns, Lyapunov exponents and oscillation; which puzzles, from Accuracy's columns."""

    def __init__(self, evaluator: Evaluator):
        super().__init__(evaluator)
        probed = min(2 * evaluator.settings.probed, len(evaluator.examples))
        spectra = min(2 * evaluator.settings.spectra, probed)
        self.cost = f"probes: up to {probed} puzzles in float64, {spectra} of them with spectral radius and trace"

    def result(self, seen: Columns) -> dict[str, Any]:
        """A row a puzzle; of the first solved and failed ones the spectra too."""
        settings, steps = self.evaluator.settings, self.evaluator.steps
        model = probes.precise(self.evaluator.model)
        solved, failed = examples_of(seen["exact"], settings.probed)
        chosen = self.evaluator.examples[solved + failed]
        batch, examples = self.evaluator.data.take(chosen), chosen.tolist()
        paths = trajectories(model, batch, examples, steps, settings.tolerance, self.evaluator.start)
        verdicts = [True] * len(solved) + [False] * len(failed)  # of the pass, in its own precision
        spectral = [*range(min(settings.spectra, len(solved)))]
        spectral += [len(solved) + i for i in range(min(settings.spectra, len(failed)))]
        with torch.no_grad():
            last = last_step(unroll(model, batch, steps, start=self.evaluator.start(chosen)))
            state, x = last.state, last.x
            few, cut = probes.rows_of(state, torch.tensor(spectral, dtype=torch.long, device=x.device)), x[spectral]
            returns = probes.perturb_and_return(model, state, x, min(steps, 16))
            spectra = zip(
                spectral,
                probes.radius(model, few, cut, settings.map) if spectral else [],
                probes.trace(model, few, cut, settings.map) if spectral else [],
                strict=True,
            )
            return {
                "dynamics": {
                    "tolerance": settings.tolerance,
                    "map": settings.map,
                    "puzzles": [
                        asdict(path) | {"solved_in_pass": verdict}
                        for path, verdict in zip(paths, verdicts, strict=True)
                    ],
                    "spectra": [
                        {"example": examples[row], "solved": paths[row].solved, "radius": r, "trace": t}
                        for row, r, t in spectra
                    ],
                    "returns": returns.T.tolist(),
                    "growth_rate": probes.growth_rate(model, state, x, min(steps, 16)).tolist(),
                    "oscillation": probes.oscillation(model, state, x).T.tolist(),
                }
            }
