"""Restarts: K answers to every puzzle, and ways to choose among them (docs/math.md §17)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import torch
from matplotlib.axes import Axes

from datasets_gen.puzzles import Puzzle
from datasets_gen.structure import GridSymmetry
from reason.data import STILL, Moved, draw_symmetries
from reason.errors import ConfigError
from reason.evaluation.evaluator import Columns, Consumer, Evaluator, PuzzleSeeds, narrow
from reason.evaluation.states import mapped, random_like, residual, size_of_rows
from reason.models.base import IGNORE, Batch, State
from reason.report.chart import Chart, doubling_axis, errorbars, legend, shares_axis
from reason.report.palette import styled
from reason.report.section import Results, Section, Table, share
from reason.rollout import StepRecord, exact_logit, last_step, unroll
from reason.training.generators import seeded

Variation = Literal["initial", "symmetry", "noise"]
VARIATIONS: dict[Variation, str] = {
    "initial": "every restart after the first starts from random normals of the initial state's size",
    "symmetry": "every restart after the first sees the puzzle under another symmetry; its answer is turned back",
    "noise": "every restart after the first has noise added to its state after each supervision step",
}
FOR_RESTARTS = 1  # what a puzzle's random numbers are for: `FOR_STARTS` of the core is another purpose
BY_RULES = "; right is what the rules accept, since the label is one answer of several"
CHOICES = ("majority", "q", "residual")  # by what an answer is chosen without a rule or a label


def variations_of(puzzle: Puzzle | None) -> list[Variation]:
    """What can be varied: of a puzzle without symmetries, only the state."""
    return ["initial", *(["symmetry"] if puzzle is not None and puzzle.symmetry is not None else []), "noise"]  # type: ignore[list-item]


class RestartSeeds(PuzzleSeeds):
    """The random numbers of one restart of each of B puzzles."""

    def batch_seed(self) -> int:
        """A seed for draws of the whole batch, derived from its first puzzle; it does not advance the streams."""
        return int(np.random.default_rng(self.keys[0]).integers(2**62))

    def symmetries(self, symmetry: GridSymmetry, restart: int, device: torch.device) -> Moved:
        """A random symmetry for each puzzle's restart number `restart`, 0 for the first."""
        generator = torch.Generator()
        rows = [
            draw_symmetries(1, symmetry, generator.manual_seed(int(stream.integers(2**32))), restart)
            for stream in self.streams
        ]
        names, sources = zip(*rows, strict=True)
        return Moved(*(None if part[0] is None else torch.cat(part).to(device) for part in (names, sources)))


class Restarts(Consumer):
    """`KIND/right`, `/valid`, `/answers`, `/q`, `/residual` (K, N) of each variation.

    The first restart is the pass itself. Random numbers are drawn for each puzzle by itself. `right` is `valid` if
    puzzles have several solutions, and under symmetries that do not keep the label.
    """

    place = 50

    def __init__(self, evaluator: Evaluator):
        super().__init__(evaluator)
        settings, device = evaluator.settings, evaluator.data.device
        self.steps, self.kinds = evaluator.steps, variations_of(evaluator.puzzle)
        if settings.vary != "all":
            if settings.vary not in self.kinds:
                raise ConfigError("evaluation.vary=symmetry: this puzzle has no symmetry; type evaluation.vary=initial")
            self.kinds = [settings.vary]
        symmetry = None if evaluator.puzzle is None else evaluator.puzzle.symmetry
        self.by_rules: list[Variation] = [] if symmetry is None or symmetry.keeps_label else ["symmetry"]
        if evaluator.rules is not None:
            self.by_rules = self.kinds
        self.counts = dict.fromkeys(self.kinds, settings.restarts)
        if symmetry is not None and "symmetry" in self.counts:
            self.counts["symmetry"] = symmetry.distinct(settings.restarts)
        self.cost = (
            f"restarts: {sum(self.counts.values()) - len(self.kinds)} passes over {len(evaluator.examples):,} puzzles "
            f"({settings.restarts} restarts of {', '.join(self.kinds)}; the first is the pass that is made anyway)"
        )
        first = torch.Generator(device).manual_seed(evaluator.seed)
        self.key = torch.randint(1, 2**62, (evaluator.data.shape.seq_len,), generator=first, device=device)

    def observe(self, record: StepRecord) -> Columns | None:
        """At the last step of a batch, make the other restarts."""
        if record.step < self.steps:
            return None
        plain = self._ending(record, record.batch, STILL)
        found: dict[str, np.ndarray] = {}
        for kind in self.kinds:
            restarts = [plain, *(self._restart(record, kind, number) for number in range(1, self.counts[kind]))]
            if kind in self.by_rules:
                restarts = [one | {"right": one["valid"]} for one in restarts]
            found |= {f"{kind}/{name}": np.stack([one[name] for one in restarts]) for name in plain}
        return found

    def _restart(self, record: StepRecord, kind: Variation, number: int) -> dict[str, np.ndarray]:
        """(B,) arrays of restart `number` of a record's batch; the pass goes on as if there were none."""
        evaluator, batch, rows, moved = self.evaluator, record.batch, record.rows, STILL
        assert rows is not None, "those of a pass"
        seeds = RestartSeeds(rows, evaluator.seed, FOR_RESTARTS, number, list(VARIATIONS).index(kind))
        if kind == "symmetry":
            assert evaluator.puzzle is not None
            assert evaluator.puzzle.symmetry is not None
            moved = seeds.symmetries(evaluator.puzzle.symmetry, number, rows.device)

        def random(state: State) -> State:
            return random_like(state, seeds.normal)

        def noisy(state: State) -> State:
            return mapped(state, lambda z: z + evaluator.settings.sigma * size_of_rows(z) * seeds.normal(z))

        own = evaluator.start(rows, number)  # of a model whose initial states are random normals anyway
        inputs = moved.apply(batch.inputs)
        decimation = evaluator.decimation(inputs, rows)
        tried = (unroll if decimation is None else decimation.unroll)(
            evaluator.model,
            batch._replace(inputs=inputs),
            self.steps,
            rows,
            start=random if own is None and kind == "initial" else own,
            after=noisy if kind == "noise" else None,
        )
        with seeded(seeds.batch_seed(), rows.device):  # of noise that the model draws itself
            return self._ending(last_step(tried), batch, moved)

    def _ending(self, last: StepRecord, batch: Batch, moved: Moved) -> dict[str, np.ndarray]:
        """(B,) arrays of a restart's last step, its answer turned back to the puzzle as asked."""
        answer, puzzle = moved.undo(last.answer), self.evaluator.puzzle
        scored = batch.labels != IGNORE
        found = {
            "right": ((answer == batch.labels) | ~scored).all(-1) & scored.any(-1),
            "answers": (torch.where(scored, answer + 1, 0) * self.key).sum(-1),  # wraps round: a hash
            "residual": residual(last.before, last.state),
        }
        q = exact_logit(last.readout, self.evaluator.halting)
        if q is not None:
            found["q"] = q
        on_host = {name: values.cpu().numpy() for name, values in found.items()}
        if puzzle is not None and puzzle.judges:
            questions, answers = (narrow(tokens, last).cpu().numpy() for tokens in (batch.inputs, answer))
            assert last.rows is not None, "those of a pass"
            on_host["valid"] = puzzle.solved(questions, answers, self.evaluator.data.instances_of(last.rows))
        return on_host

    def result(self, seen: Columns) -> dict[str, Any]:
        """One table a variation."""
        return {
            "restarts": {
                kind: {
                    "what": VARIATIONS[kind] + (BY_RULES if kind in self.by_rules else ""),
                    "rows": restart_table(restarts_of(seen, kind)),
                }
                for kind in self.kinds
            }
        }


def restarts_of(seen: Columns, kind: Variation) -> Columns:
    """What Restarts kept of one variation (K, N): right, answers, residual; q with a head, valid where rules decide."""
    return {name.removeprefix(f"{kind}/"): values for name, values in seen.items() if name.startswith(f"{kind}/")}


def chosen(restarts: Columns, choice: str) -> np.ndarray:
    """Choose a restart (N,): the most frequent answer, the highest q, the smallest residual; ties to the earliest.

    A restart that diverged (NaN) has the lowest q and the greatest residual.
    """
    match choice:
        case "majority":
            answers = restarts["answers"]
            return np.stack([(answers == answer).sum(0) for answer in answers]).argmax(0)
        case "q":
            return np.where(np.isnan(restarts["q"]), -np.inf, restarts["q"]).argmax(0)
        case "residual":
            return np.where(np.isnan(restarts["residual"]), np.inf, restarts["residual"]).argmin(0)
    raise ValueError(choice)


def restart_table(restarts: Columns) -> list[dict[str, Any]]:
    """Exact for 1, 2, 4, … K restarts: by choice; `verified` takes the first whose rules hold (else the majority).

    `any` is the share with a right answer among the restarts: what no choice can exceed.
    """
    total = len(restarts["right"])
    counts = sorted({*(2**k for k in range(total.bit_length()) if 2**k <= total), total})
    rows = []
    for count in counts:
        some = {name: values[:count] for name, values in restarts.items()}
        picks = {choice: chosen(some, choice) for choice in CHOICES if choice in ("majority", *some)}
        if "valid" in some:
            picks["verified"] = np.where(some["valid"].any(0), some["valid"].argmax(0), picks["majority"])
        row: dict[str, Any] = {"restarts": count, **dict.fromkeys((*CHOICES, "verified"))}
        for choice, pick in picks.items():
            row[choice] = float(np.take_along_axis(some["right"], pick[None], axis=0).mean())
        rows.append(row | {"any": float(some["right"].any(0).mean())})
    return rows


WAYS = {  # of choosing among restarts; the last needs the rules
    "majority": "majority",
    "q": "highest q",
    "residual": "least residual",
    "any": "any right",
    "verified": "verified by the rules",
}
NEEDS_MORE = ("any", "verified")  # than the model's own words
TITLES = {"initial": "random initial states", "symmetry": "symmetries of the puzzle", "noise": "noise on the state"}


def _tables(results: Results) -> list[Table]:
    rows = [
        [kind, str(row["restarts"]), *(share(row[way]) for way in WAYS)]
        for kind, section in results["restarts"].items()
        for row in section["rows"]
    ]
    return [Table("restarts: exact", ("varied", "restarts", *WAYS.values()), rows)]


def _charts(results: Results) -> list[Chart]:
    def drawing(rows: list[dict[str, Any]]) -> Callable[[Axes], None]:
        def draw(axes: Axes) -> None:
            barred: set[tuple[int, float]] = set()
            for index, (way, label) in enumerate(WAYS.items()):
                some = [row for row in rows if row[way] is not None]
                style = styled(index) | {"linestyle": "--" if way in NEEDS_MORE else "-"}
                if some:
                    axes.plot([row["restarts"] for row in some], [row[way] for row in some], label=label, **style)
                points = [(row["restarts"], row[way]) for row in some if (row["restarts"], row[way]) not in barred]
                if points:  # where ways give the same, one bar is enough
                    barred.update(points)
                    restarts, exact = zip(*points, strict=True)
                    aside = [1.02**index * count for count in restarts]
                    errorbars(axes, aside, exact, results["puzzles"], fmt="none", color=style["color"])
            shares_axis(axes, "exact", whole=False)
            doubling_axis(axes, rows[-1]["restarts"], "restarts")
            legend(axes)

        return draw

    def says(rows: list[dict[str, Any]]) -> str:
        last = rows[-1]
        told = ", ".join(f"{label} {share(last[way])}" for way, label in WAYS.items() if last[way] is not None)
        return f"{share(rows[0]['majority'])} with one; with {last['restarts']}: {told}"

    kinds = results["restarts"].items()
    return [Chart(TITLES[kind], says(found["rows"]), drawing(found["rows"])) for kind, found in kinds]


NOTE = """The first restart is the plain pass. “Verified” takes the first answer that keeps the rules. The columns
before it use neither rules nor labels, save “any right”, the share that no choice can exceed. Bars: Wilson's 95 %
interval."""

RESTARTS = Section("restarts", "Restarts", _tables, {"restarts": _charts}, lambda _: NOTE, place=50)
