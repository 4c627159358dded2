"""How well the halting head knows which answers are exact: AUC, calibration error, reliability."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from scipy.stats import rankdata

from reason.evaluation.evaluator import Columns, Consumer, Evaluator, StepColumns
from reason.report.chart import Chart, shares_axis
from reason.report.palette import BLUE, GREY
from reason.report.section import Results, Section, Table, number, rows_shown, share
from reason.rollout import StepRecord, exact_logit

BINS = 15


def auc(scores: np.ndarray, positive: np.ndarray) -> float | None:
    """P(score of a positive > score of a negative), ties half (Mann-Whitney); None where a class is empty."""
    yes, no = int(positive.sum()), int((~positive).sum())
    if not yes or not no:
        return None
    return float((rankdata(scores)[positive].sum() - yes * (yes + 1) / 2) / (yes * no))


def reliability(probability: np.ndarray, positive: np.ndarray) -> list[dict[str, float]]:
    """Equal-width bins of probability (Guo et al. 2017): puzzles, mean probability, share of positives; none empty."""
    index = np.minimum((probability * BINS).astype(int), BINS - 1)
    return [
        {
            "puzzles": int((index == b).sum()),
            "said": float(probability[index == b].mean()),
            "true": float(positive[index == b].mean()),
        }
        for b in np.unique(index)
    ]


def ece(probability: np.ndarray, positive: np.ndarray) -> float:
    """Expected calibration error: mean over puzzles of |said − true| of their bin."""
    rows = reliability(probability, positive)
    return sum(row["puzzles"] * abs(row["said"] - row["true"]) for row in rows) / len(probability)


def of_highest(q: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Whether the answer of highest q up to each step is exact, (T, N) of both; ties go to the earlier step."""
    highest = np.maximum.accumulate(q)
    new = np.concatenate([np.ones_like(q[:1], bool), q[1:] > highest[:-1]])
    step = np.maximum.accumulate(np.where(new, np.arange(len(q))[:, None], 0))
    return np.take_along_axis(exact, step, 0)


class HaltingHead(Consumer):
    """`q_halt` (T, N): its σ against `exact`, the column of Accuracy."""

    def __init__(self, evaluator: Evaluator):
        super().__init__(evaluator)
        self.steps, self._kept = evaluator.steps, StepColumns(evaluator.steps)

    def observe(self, record: StepRecord) -> Columns | None:
        """Keep the logit of a step, where a head is trained."""
        q = exact_logit(record.readout, self.evaluator.halting)
        if q is None:
            return None
        self._kept.add({"q_halt": q})
        return self._kept.take() if record.step == self.steps else None

    def result(self, seen: Columns) -> dict[str, Any]:
        """AUC, ECE and exact of the highest q so far at every step, reliability at the trained one; None: no head."""
        if "q_halt" not in seen:
            return {"halting": None}
        q = np.nan_to_num(seen["q_halt"].astype(np.float64), nan=-np.inf)  # a diverged state says nothing
        probability, exact = 1 / (1 + np.exp(-np.clip(q, -500, 500))), seen["exact"]
        step = min(self.evaluator.trained_steps, self.evaluator.steps)
        return {
            "halting": {
                "auc_by_step": [auc(scores, right) for scores, right in zip(q, exact, strict=True)],
                "ece_by_step": [ece(p, right) for p, right in zip(probability, exact, strict=True)],
                "exact_by_step": of_highest(q, exact).mean(1).tolist(),
                "step": step,
                "reliability": reliability(probability[step - 1], exact[step - 1]),
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
    return [Table("halting head against exact", columns, rows, first=shown)]


def _charts(results: Results) -> list[Chart]:
    head = results["halting"]
    rows = head["reliability"]

    def reliability(axes: Axes) -> None:
        axes.plot([0, 1], [0, 1], color=GREY, ls=":", lw=1)
        said, true, puzzles = (np.array([row[key] for row in rows]) for key in ("said", "true", "puzzles"))
        axes.scatter(said, true, s=12 + 200 * puzzles / results["puzzles"], color=BLUE, alpha=0.8)
        axes.set(xlabel="σ(q), mean of its bin", xlim=(-0.05, 1.05))
        shares_axis(axes, "share exact")
        axes.set_ylim(-0.05, 1.05)

    told = "; ".join(f"{row['puzzles']} puzzles at σ(q) {row['said']:.2f}, {share(row['true'])} exact" for row in rows)
    return [Chart(f"σ(q) against the share exact, step {head['step']}", told, reliability)]


NOTE = """Highest q so far: each puzzle's answer is that of the step with its highest q. AUC: the chance that an exact
puzzle has the higher q. Calibration error: the mean distance from the diagonal, in bins of 1/15."""

HALTING = Section("halting", "Does the halting head know?", _tables, {"halting": _charts}, lambda _: NOTE, place=30)
