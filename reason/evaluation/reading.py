"""A trained model read whole: the dictionary that results.json holds (docs/evaluation.md states its fields)."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch

from datasets_gen.layout import splits_of
from datasets_gen.puzzles import Puzzle
from reason.data import PuzzleData
from reason.errors import ConfigError
from reason.evaluation import probes, statistics
from reason.evaluation.accuracy import Record, accuracy_of, one_pass
from reason.evaluation.boards import examples_of, think
from reason.evaluation.config import EvaluationConfig
from reason.evaluation.leaving import run_with
from reason.evaluation.policies import FIXED, Allowance, frontier, outcome, policies_for
from reason.evaluation.restarts import VARIATIONS, Variation, restart_table, tries_at, variations_of
from reason.evaluation.trajectories import trajectories
from reason.losses.lm import Likelihood
from reason.models.base import Reasoner
from reason.nn.dtypes import finite
from reason.rollout import Halting
from reason.training.distributed import World


@dataclass(frozen=True)
class Reading:
    """A model, a split, and how to read them."""

    model: Reasoner
    data: PuzzleData
    puzzle: Puzzle | None
    settings: EvaluationConfig
    steps: int
    trained_steps: int
    likelihood: Likelihood = "softmax"
    halting: Halting = "bce"
    seed: int = 0
    progress: bool = True
    world: World = field(default_factory=World)

    def results(self) -> dict[str, Any]:
        """Everything that was asked for; sections that were not are absent.

        Of several processes each reads its portion in the pass; the rest is the first's alone, others return nothing.
        """
        calibration, variations = self._calibration_set(), self._variations()  # refused before any work
        record = self._pass(self.data, self.world)
        if not self.world.first:
            return {}
        examples = slice(0, record.puzzles)
        questions, labels = (t[examples].cpu().numpy() for t in (self.data.inputs, self.data.labels))
        bins = statistics.difficulty(self.puzzle, questions, labels, self.data.example_ratings(record.puzzles))
        found: dict[str, Any] = asdict(accuracy_of(record)) | {
            "difficulty": statistics.by_difficulty(record, bins),
            "halting": statistics.halting_statistics(record, min(self.trained_steps, self.steps)),
        }
        if self.settings.policies:
            found["policies"] = self._policies(record, calibration)
        if self.settings.restarts > 1:
            found["restarts"] = self._restarts(variations)
        if self.settings.probes:
            found["dynamics"] = self._dynamics(record)
        if self.settings.boards and self.puzzle is not None:
            found["boards"] = self._boards(record)
        return finite(found)

    def _pass(self, data: PuzzleData, world: World) -> Record:
        return one_pass(
            self.model, data, self.steps, self.settings.batch_size, limit=self.settings.limit, puzzle=self.puzzle,
            likelihood=self.likelihood, halting=self.halting, progress=self.progress, world=world,
        )  # fmt: skip

    def _policies(self, record: Record, calibrated_on: PuzzleData | None) -> dict[str, Any]:
        """Calibrated on one part, reported on another; wall-clock with rows leaving, against leaving nobody out."""
        calibration, tested, told = self._calibration(record, calibrated_on)
        seen = record.rows(tested)
        causal = self.puzzle is not None and bool(self.puzzle.task.get("causal"))
        budget = self.settings.budget if self.settings.budget != "auto" else "perplexity" if causal else "exact"
        allowance = Allowance(budget, self.settings.drop, self.settings.perplexity)
        rows = []
        for policy in policies_for(calibration, self.trained_steps, allowance):
            live = run_with(
                policy, self.model, self.data, tested, self.steps, self.settings.batch_size,
                likelihood=self.likelihood, halting=self.halting, progress=self.progress,
            )  # fmt: skip
            finite = np.isfinite(policy.threshold)
            rows.append(
                {"name": policy.name, "signal": policy.signal, "threshold": policy.threshold if finite else None}
                | outcome(seen, policy.stops(seen))
                | {"live_exact": float(live.exact.mean()), "live_mean_steps": float(live.steps.mean())}
                | {"seconds": live.seconds}
            )
        for row in rows:
            row["speedup"] = rows[0]["seconds"] / row["seconds"]
        return {
            "calibrated_on": told,
            "puzzles": len(tested),
            "allowance": asdict(allowance),
            "rows": rows,
            "frontiers": {signal: frontier(seen, signal) for signal in (FIXED, *seen.signals)},
        }

    def _calibration_set(self) -> PuzzleData | None:
        """Another split to calibrate policies on; None: a part of the evaluated one."""
        name, own = self.settings.calibration, self.data.split
        if name == "auto":
            name = "validation" if "validation" in splits_of(self.data.directory) else own
        if name == own or not self.settings.policies:
            return None
        data = PuzzleData(self.data.directory, name, self.data.device)
        if not len(data):
            raise ConfigError(f"evaluation.calibration={name}: that split is empty; name another")
        return data

    def _calibration(self, record: Record, other: PuzzleData | None) -> tuple[Record, np.ndarray, str]:
        """The record to calibrate on, the puzzles to report on, and in words where the first are from."""
        own, everyone = self.data.split, np.arange(record.puzzles)
        if other is not None:
            calibration = self._pass(other, World())
            return calibration, everyone, f"{calibration.puzzles} puzzles of the {other.split} split"
        if record.puzzles == 1:
            return record, everyone, f"the one puzzle of the {own} split"
        return record.rows(everyone[::2]), everyone[1::2], f"every other puzzle of the {own} split"

    def _variations(self) -> list[Variation]:
        """What restarts are to vary."""
        possible = variations_of(self.puzzle)
        if self.settings.vary == "all" or self.settings.restarts == 1:
            return possible
        if self.settings.vary not in possible:
            raise ConfigError("evaluation.vary=symmetry: this puzzle has no symmetry; type evaluation.vary=initial")
        return [self.settings.vary]

    def _restarts(self, kinds: list[Variation]) -> dict[str, Any]:
        """One table a variation."""
        return {
            kind: {
                "what": VARIATIONS[kind],
                "rows": restart_table(
                    tries_at(
                        self.model, self.data, self.steps, self.settings.restarts, kind, self.settings.batch_size,
                        limit=self.settings.limit, puzzle=self.puzzle, halting=self.halting,
                        sigma=self.settings.sigma, seed=self.seed, progress=self.progress,
                    )
                ),
            }
            for kind in kinds
        }  # fmt: skip

    def _dynamics(self, record: Record) -> dict[str, Any]:
        """The probes, on solved and failed puzzles, in float64."""
        settings = self.settings
        model = probes.precise(self.model)
        solved, failed = examples_of(record.exact, settings.probed)
        examples = solved + failed
        batch = self.data.take(torch.tensor(examples, device=self.data.device))
        paths = trajectories(model, batch, examples, self.steps, settings.tolerance)
        spectral = [*range(min(settings.spectra, len(solved)))]
        spectral += [len(solved) + i for i in range(min(settings.spectra, len(failed)))]
        with torch.no_grad():
            x = model.encode(batch)
            *_, state = probes.states(model, x, self.steps)
            few, cut = probes.rows_of(state, torch.tensor(spectral, dtype=torch.long, device=x.device)), x[spectral]
            returns = probes.perturb_and_return(model, state, x, min(self.steps, 16))
            spectra = zip(
                spectral,
                probes.radius(model, few, cut, settings.map) if spectral else [],
                probes.trace(model, few, cut, settings.map) if spectral else [],
                strict=True,
            )
            return {
                "tolerance": settings.tolerance,
                "map": settings.map,
                "puzzles": [asdict(path) for path in paths],
                "spectra": [
                    {"example": examples[row], "solved": paths[row].solved, "radius": r, "trace": t}
                    for row, r, t in spectra
                ],
                "returns": returns.T.tolist(),
                "growth_rate": probes.growth_rate(model, state, x, min(self.steps, 16)).tolist(),
                "oscillation": probes.oscillation(model, state, x).T.tolist(),
            }

    def _boards(self, record: Record) -> dict[str, Any]:
        """Questions, labels and the answer at every step of a few puzzles."""
        assert self.puzzle is not None
        solved, failed = examples_of(record.exact, self.settings.boards)
        batch = self.data.take(torch.tensor(solved + failed, device=self.data.device))
        thoughts = think(self.model, batch, self.steps, self.halting)
        rows, columns = self.puzzle.grid_shape
        return {
            "task": self.puzzle.task["name"],
            "rows": rows,
            "columns": columns,
            "box": self.puzzle.box_shape,
            "glyphs": self.puzzle.glyphs,
            "puzzles": [
                {
                    "example": example,
                    "solved": example in solved,
                    "question": question,
                    "label": label,  # −100: not scored
                    "answers": thought.answers.tolist(),
                    "halting": thought.halting,
                }
                for example, question, label, thought in zip(
                    solved + failed, batch.inputs.tolist(), batch.labels.tolist(), thoughts, strict=True
                )
            ],
        }
