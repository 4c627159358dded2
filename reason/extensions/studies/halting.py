"""The halting head as a predictor of exact answers: AUC, calibration error, abstention."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import rankdata

from reason.evaluation.evaluator import Columns, Consumer, Evaluator, StepColumns
from reason.report.section import Results, Section, Table, interval, number, rows_shown, share
from reason.rollout import StepRecord, exact_logit

BINS = 15
WRONG = (0.05, 0.01, 0.001, 0.0)  # allowed shares of wrong answers among those given, one threshold for each


def auc(scores: np.ndarray, positive: np.ndarray) -> float | None:
    """Return P(score of a positive > score of a negative), ties half (Mann-Whitney); None if a class is empty."""
    yes, no = int(positive.sum()), int((~positive).sum())
    if not yes or not no:
        return None
    return float((rankdata(scores)[positive].sum() - yes * (yes + 1) / 2) / (yes * no))


def ece(probability: np.ndarray, positive: np.ndarray) -> float:
    """Return the expected calibration error (Guo et al. 2017): |Σ probability − positives| over bins, per puzzle."""
    index = np.minimum((probability * BINS).astype(int), BINS - 1)
    return float(np.abs(np.bincount(index, probability - positive)).sum() / len(probability))


def at_highest(q: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Return whether the answer of highest q up to each step is exact, (T, N) each; ties go to the earlier step."""
    highest = np.maximum.accumulate(q)
    new = np.concatenate([np.ones_like(q[:1], bool), q[1:] > highest[:-1]])
    step = np.maximum.accumulate(np.where(new, np.arange(len(q))[:, None], 0))
    return np.take_along_axis(exact, step, 0)


def abstention(q: np.ndarray, exact: np.ndarray, valid: np.ndarray | None = None) -> list[dict[str, Any]]:
    """Return for each threshold of q (N,) the share of answers above it, and the share of wrong ones among these.

    Thresholds: none, 0, and the lowest for each share of WRONG, chosen on the same puzzles. `checked`: how many of the
    given answers also satisfy the rules, if `valid` is known.
    """
    levels = np.unique([-np.inf, 0.0, *q])

    def above(of: np.ndarray) -> np.ndarray:  # number of puzzles above each level
        return of.sum() - np.searchsorted(np.sort(q[of]), levels, side="right")

    counts = {"given": above(np.ones_like(exact)), "wrong": above(~exact)}
    counts |= {} if valid is None else {"checked": above(valid)}
    first = [int((counts["wrong"] <= share * counts["given"]).argmax()) for share in WRONG]
    return [
        {"threshold": float(levels[level]) if level else None, "allowed": allowed}
        | {name: int(by_level[level]) for name, by_level in counts.items()}
        for level, allowed in zip((0, int(np.searchsorted(levels, 0.0)), *first), (None, None, *WRONG), strict=True)
    ]


class HaltingHead(Consumer):
    """Keeps `q_halt` (T, N) and compares its σ with `exact`, the column of Accuracy."""

    def __init__(self, evaluator: Evaluator):
        super().__init__(evaluator)
        self._kept = StepColumns(self.steps)

    def observe(self, record: StepRecord) -> Columns | None:
        """Keep the logit of a step, if a head is trained."""
        q = exact_logit(record.readout, self.evaluator.halting)
        if q is None:
            return None
        self._kept.add({"q_halt": q})
        return self._kept.take() if record.step == self.steps else None

    def result(self, seen: Columns) -> dict[str, Any]:
        """Return AUC, ECE and exact of the highest q so far at every step; None without a head.

        Abstention uses the answers with the highest q of all steps.
        """
        if "q_halt" not in seen:
            return {"halting": None}
        q = np.nan_to_num(seen["q_halt"].astype(np.float64), nan=-np.inf)  # a diverged state has no q
        probability, exact = 1 / (1 + np.exp(-np.clip(q, -500, 500))), seen["exact"]
        best = [at_highest(q, seen[name]) for name in ("exact", "valid") if name in seen]
        return {
            "halting": {
                "auc_by_step": [auc(scores, right) for scores, right in zip(q, exact, strict=True)],
                "ece_by_step": [ece(p, right) for p, right in zip(probability, exact, strict=True)],
                "exact_by_step": best[0].mean(1).tolist(),
                "abstention": abstention(q.max(0), *(by_step[-1] for by_step in best)),
            }
        }


def _tables(results: Results) -> list[Table]:
    head = results["halting"]
    by_step = zip(head["exact_by_step"], head["auc_by_step"], head["ece_by_step"], strict=True)
    rows = [
        [str(step), share(row[0]), number(row[1], ".3f"), share(row[2])] for step, row in enumerate(by_step, start=1)
    ]
    columns = ("step", "exact of highest q so far", "AUC", "calibration error")
    shown = rows_shown(results["steps"], results["trained_steps"])
    table = Table("halting head against exact", columns, rows, first=shown)
    return [table, _given(results)]


def _given(results: Results) -> Table:
    """Return the table of abstention."""
    rows = [
        [
            "none" if row["threshold"] is None else f"{row['threshold']:.2f}",
            "" if row["allowed"] is None else f"wrong ≤ {row['allowed']:.1%}",
            share(row["given"] / results["puzzles"]),
            f"{row['wrong']:,} of {row['given']:,}",
            interval(row["wrong"] / row["given"], row["given"]) if row["given"] else "–",
            share(row["checked"] / results["puzzles"] if "checked" in row else None),
        ]
        for row in results["halting"]["abstention"]
    ]
    columns = ("q above", "chosen for", "given", "wrong", "95 % interval", "given, rules hold")
    return Table("answers of highest q, given only above a threshold", columns, rows, left=(0, 1))


NOTE = """Highest q so far: each puzzle's answer is that of the step with its highest q. AUC: the chance that an exact
puzzle has a higher q than another. Calibration error: the mean distance of σ(q) from the share exact, in 15 bins.
Thresholds were chosen on the same puzzles, so the Wilson intervals are too narrow."""

HALTING = Section("halting", "Halting head", _tables, note=lambda _: NOTE, order=30)
