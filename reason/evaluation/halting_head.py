"""How well the halting head knows what is exact: AUC, calibration error, reliability."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import rankdata

from reason.evaluation.evaluator import Columns, Consumer, Evaluator, StepColumns
from reason.evaluation.halting_signals import exact_logit
from reason.models.record import StepRecord

RELIABILITY_BINS = 15


def auc(scores: np.ndarray, positive: np.ndarray) -> float | None:
    """P(score of a positive > score of a negative), ties half (Mann-Whitney); None where a class is empty."""
    yes, no = int(positive.sum()), int((~positive).sum())
    if not yes or not no:
        return None
    return float((rankdata(scores)[positive].sum() - yes * (yes + 1) / 2) / (yes * no))


def reliability(probability: np.ndarray, positive: np.ndarray, bins: int = RELIABILITY_BINS) -> list[dict[str, float]]:
    """Equal-width bins of probability (Guo et al. 2017): puzzles, mean probability, share of positives; none empty."""
    index = np.minimum((probability * bins).astype(int), bins - 1)
    return [
        {
            "puzzles": int((index == b).sum()),
            "said": float(probability[index == b].mean()),
            "true": float(positive[index == b].mean()),
        }
        for b in np.unique(index)
    ]


def ece(probability: np.ndarray, positive: np.ndarray, bins: int = RELIABILITY_BINS) -> float:
    """Expected calibration error: mean over puzzles of |said − true| of their bin."""
    rows = reliability(probability, positive, bins)
    return sum(row["puzzles"] * abs(row["said"] - row["true"]) for row in rows) / len(probability)


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
        """AUC and ECE at every step, reliability at the trained one; None without a halting head."""
        if "q_halt" not in seen:
            return {"halting": None}
        q = np.nan_to_num(seen["q_halt"].astype(np.float64), nan=-np.inf)  # a diverged state says nothing
        probability, exact = 1 / (1 + np.exp(-np.clip(q, -500, 500))), seen["exact"]
        step = min(self.evaluator.trained_steps, self.evaluator.steps)
        return {
            "halting": {
                "auc_by_step": [auc(scores, right) for scores, right in zip(q, exact, strict=True)],
                "ece_by_step": [ece(p, right) for p, right in zip(probability, exact, strict=True)],
                "step": step,
                "reliability": reliability(probability[step - 1], exact[step - 1]),
            }
        }
