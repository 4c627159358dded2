"""Restarts: R answers to every puzzle, and rules to choose one of them (docs/math.md §17)."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from matplotlib.axes import Axes

from datasets_gen.structure import GridSymmetry
from reason.data.augmentation import IDENTITY, Symmetries, draw_symmetries
from reason.errors import ConfigError
from reason.evaluation.evaluator import Columns, Consumer, Evaluator, PuzzleSeeds, narrow
from reason.models.base import IGNORE, Batch, Context, State, correct
from reason.models.states import mapped, random_like, residual, size_of_rows
from reason.report.chart import Chart, legend, log_axis, shares_axis
from reason.report.palette import styled
from reason.report.section import Results, Section, Table, share, wilson_interval
from reason.rollout import StepRecord, exact_logit
from reason.training.generators import seeded

Variation = Literal["initial", "symmetry", "noise"]
VARIATIONS: dict[Variation, str] = {
    "initial": "random initial states",
    "symmetry": "symmetries of the puzzle",
    "noise": "noise on the state",
}
SIGMA = 0.1  # scale of the noise, relative to the state's root mean square
FOR_RESTARTS = 1  # purposes of a puzzle's random numbers, other than `FOR_STARTS` of the core


def puzzle_symmetries(seeds: PuzzleSeeds, symmetry: GridSymmetry, restart: int, device: torch.device) -> Symmetries:
    """Return a random symmetry for each puzzle's restart number `restart`, 0 for the first."""
    draws = [torch.Generator().manual_seed(int(stream.integers(2**32))) for stream in seeds.streams]
    names, sources = zip(*(draw_symmetries(1, symmetry, draw, restart) for draw in draws), strict=True)
    return Symmetries(*(None if part[0] is None else torch.cat(part).to(device) for part in (names, sources)))


class Restarts(Consumer):
    """Collects `KIND/right`, `/valid`, `/answers`, `/q`, `/residual` (R, N) of each variation.

    The first restart is the pass itself. Random numbers are drawn separately for each puzzle. `right` is `valid` if
    puzzles have several solutions, and under symmetries that do not preserve the label.
    """

    order = 50

    def __init__(self, evaluator: Evaluator):
        super().__init__(evaluator)
        puzzle, (asked, _, vary) = evaluator.puzzle, evaluator.settings.asked["restarts"].partition(":")
        symmetry = None if puzzle is None else puzzle.symmetry
        if symmetry is None and vary == "symmetry":
            raise ConfigError(f"restarts={asked}:symmetry: this puzzle has no symmetry; type restarts={asked}:initial")
        self.counts: dict[Variation, int] = {}  # of restarts, the pass itself included
        for kind in VARIATIONS:
            if vary in ("", kind) and (kind != "symmetry" or symmetry is not None):
                count = int(asked)
                self.counts[kind] = count if symmetry is None or kind != "symmetry" else symmetry.distinct(count)
        changes = symmetry is not None and not symmetry.keeps_label
        self.by_rules = [kind for kind in self.counts if evaluator.rules or (kind == "symmetry" and changes)]
        passes = sum(self.counts.values()) - len(self.counts)
        self.cost = f"restarts: {passes} more passes, to vary {', '.join(self.counts)}"
        first = torch.Generator(evaluator.data.device).manual_seed(evaluator.seed)
        size = evaluator.data.shape.seq_len
        self.key = torch.randint(1, 2**62, (size,), generator=first, device=evaluator.data.device)

    def observe(self, record: StepRecord) -> Columns | None:
        """Execute the other restarts, at the last step of a batch."""
        if record.step < self.steps:
            return None
        plain = self._ending(record, record.batch, IDENTITY)
        arrays: dict[str, np.ndarray] = {}
        for kind, count in self.counts.items():
            restarts = [plain, *(self._restart(record, kind, number) for number in range(1, count))]
            if kind in self.by_rules:
                restarts = [one | {"right": one["valid"]} for one in restarts]
            arrays |= {f"{kind}/{name}": np.stack([one[name] for one in restarts]) for name in plain}
        return arrays

    def _restart(self, record: StepRecord, kind: Variation, number: int) -> dict[str, np.ndarray]:
        """Return (B,) arrays of restart `number` of a record's batch, without effect on the pass."""
        evaluator, batch, rows, symmetries = self.evaluator, record.batch, record.rows, IDENTITY
        step = evaluator.model.step
        assert rows is not None, "those of a pass"
        seeds = PuzzleSeeds(rows, evaluator.seed, FOR_RESTARTS, number, list(VARIATIONS).index(kind))
        if kind == "symmetry":
            assert evaluator.puzzle is not None
            assert evaluator.puzzle.symmetry is not None
            symmetries = puzzle_symmetries(seeds, evaluator.puzzle.symmetry, number, rows.device)

        def noisy(state: State, context: Context) -> State:
            return mapped(step(state, context), lambda z: z + SIGMA * size_of_rows(z) * seeds.normal(z))

        start = evaluator.start(rows, number)  # not None: the model's initial states are always random normals
        inputs = symmetries.apply(batch.inputs)
        tried = evaluator.unroller(inputs, rows)(
            evaluator.model,
            batch._replace(inputs=inputs),
            self.steps,
            start=partial(random_like, normal=seeds.normal) if start is None and kind == "initial" else start,
            step=noisy if kind == "noise" else step,
        )
        seed = int(np.random.default_rng(seeds.keys[0]).integers(2**62))  # of noise that the model draws itself
        with seeded(seed, rows.device):
            last = deque(tried, maxlen=1).pop()  # earlier states are freed
            return self._ending(replace(last, rows=rows), batch, symmetries)

    def _ending(self, last: StepRecord, batch: Batch, symmetries: Symmetries) -> dict[str, np.ndarray]:
        """Return (B,) arrays of a restart's last step, with its answer transformed back to the original puzzle."""
        answer, puzzle = symmetries.undo(last.answer), self.evaluator.puzzle
        scored = batch.labels != IGNORE
        result = {
            "right": correct(answer, batch.labels)[1],
            "answers": (torch.where(scored, answer + 1, 0) * self.key).sum(-1),  # wraps round: a hash
            "residual": residual(last.before, last.state),
        }
        q = exact_logit(last.readout, self.evaluator.halting)
        if q is not None:
            result["q"] = q
        on_host = {name: values.cpu().numpy() for name, values in result.items()}
        if puzzle is not None and puzzle.has_rules:
            questions, answers = (narrow(tokens, last).cpu().numpy() for tokens in (batch.inputs, answer))
            assert last.rows is not None, "those of a pass"
            on_host["valid"] = puzzle.solved(questions, answers, self.evaluator.data.instances_of(last.rows))
        return on_host

    def result(self, seen: Columns) -> dict[str, Any]:
        """Return a table for each variation."""
        return {
            "restarts": {
                kind: {
                    "what": VARIATIONS[kind] + "; right by the rules" * (kind in self.by_rules),
                    "rows": restart_table(restarts_of(seen, kind)),
                }
                for kind in self.counts
            }
        }


def restarts_of(seen: Columns, kind: Variation) -> Columns:
    """Return the arrays (R, N) of one variation: right, answers, residual; q with a head, valid if rules decide."""
    return {name.removeprefix(f"{kind}/"): values for name, values in seen.items() if name.startswith(f"{kind}/")}


def choices(restarts: Columns) -> dict[str, np.ndarray]:
    """Return the restart (N,) that each way takes; ties go to the earliest.

    majority: the most frequent answer; q: the highest; residual: the smallest; verified: the first whose rules hold,
    else the majority. A restart that diverged (NaN) has the lowest q and the greatest residual.
    """
    answers = restarts["answers"]
    picks = {"majority": np.stack([(answers == answer).sum(0) for answer in answers]).argmax(0)}
    if "q" in restarts:
        picks["q"] = np.nan_to_num(restarts["q"], nan=-np.inf).argmax(0)
    picks["residual"] = np.nan_to_num(restarts["residual"], nan=np.inf).argmin(0)
    if "valid" in restarts:
        valid = restarts["valid"]
        picks["verified"] = np.where(valid.any(0), valid.argmax(0), picks["majority"])
    return picks


def restart_table(restarts: Columns) -> list[dict[str, Any]]:
    """Return exact for 1, 2, 4, … R restarts by each choice, None for one that is not available.

    `any` is the share of puzzles with a right answer among the restarts, an upper bound of all choices.
    """
    total = len(restarts["right"])
    rows = []
    for count in sorted({*(2**k for k in range(total.bit_length())), total}):
        some = {name: values[:count] for name, values in restarts.items()}
        right, row = some["right"], {"restarts": count, **dict.fromkeys(WAYS)}
        for way, pick in choices(some).items():
            row[way] = float(np.take_along_axis(right, pick[None], axis=0).mean())
        rows.append(row | {"any": float(right.any(0).mean())})
    return rows


WAYS = {
    "majority": "majority",
    "q": "highest q",
    "residual": "least residual",
    "any": "any right",
    "verified": "verified by the rules",
}


def _tables(results: Results) -> list[Table]:
    rows = [
        [kind, str(row["restarts"]), *(share(row[way]) for way in WAYS)]
        for kind, section in results["restarts"].items()
        for row in section["rows"]
    ]
    return [Table("restarts: exact", ("varied", "restarts", *WAYS.values()), rows)]


def _charts(results: Results) -> list[Chart]:
    def draw(axes: Axes, rows: list[dict[str, Any]]) -> None:
        counts = [row["restarts"] for row in rows]
        for index, way in enumerate(way for way in WAYS if rows[0][way] is not None):
            exact = np.array([row[way] for row in rows])
            axes.plot(counts, exact, label=WAYS[way], **styled(index))
            aside = [1.02**index * count for count in counts]  # separates the bars of different choices
            low, high = np.transpose([wilson_interval(value, results["puzzles"]) for value in exact])
            bars = np.maximum([exact - low, high - exact], 0)
            axes.errorbar(aside, exact, bars, fmt="none", elinewidth=0.9, capsize=2, color=styled(index)["color"])
        shares_axis(axes, "exact", whole=False)
        axes.set_xlabel("restarts")
        log_axis(axes, "x")
        legend(axes)

    charts = []
    for varied in results["restarts"].values():
        last = varied["rows"][-1]
        shares = ", ".join(f"{label} {share(last[way])}" for way, label in WAYS.items() if last[way] is not None)
        alt_text = f"with {last['restarts']} restarts: {shares}"
        charts.append(Chart(varied["what"], alt_text, partial(draw, rows=varied["rows"])))
    return charts


NOTE = """The first restart is the plain pass. “Verified” takes the first answer that satisfies the rules. The columns
before it use neither rules nor labels. “Any right” is an upper bound: the share of puzzles with at least one right
answer. Bars: Wilson's 95 % interval."""

RESTARTS = Section("restarts", "Restarts", _tables, {"restarts": _charts}, lambda _: NOTE, order=50)
