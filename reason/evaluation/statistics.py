"""Statistics of a record: how well the halting head knows, and accuracy by difficulty."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import rankdata

from datasets_gen.puzzles import Puzzle
from datasets_gen.ratings import BIN_NAMES, bins_of
from reason.evaluation.accuracy import Record

RELIABILITY_BINS = 15
MANY = 8  # more different values than this are put into quartiles


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


def halting_statistics(record: Record, step: int) -> dict[str, Any] | None:
    """AUC and ECE of σ(q) against "exact" at every step, reliability at `step`; None without a halting head."""
    if "q" not in record.signals:
        return None
    q = np.nan_to_num(record.signals["q"].astype(np.float64), nan=-np.inf)  # a diverged state says nothing
    probability = 1 / (1 + np.exp(-np.clip(q, -500, 500)))
    return {
        "auc_by_step": [auc(scores, exact) for scores, exact in zip(q, record.exact, strict=True)],
        "ece_by_step": [ece(p, exact) for p, exact in zip(probability, record.exact, strict=True)],
        "step": step,
        "reliability": reliability(probability[step - 1], record.exact[step - 1]),
    }


def difficulty(
    puzzle: Puzzle | None, questions: np.ndarray, labels: np.ndarray, ratings: np.ndarray | None
) -> tuple[str, list[str], np.ndarray] | None:
    """(what is counted, names of the bins, bin of every puzzle (N,)); None where nothing tells them apart.

    By rating, Sudoku in the bins of datasets_gen/ratings.py; where all ratings fall into one bin or there are none,
    by the family's first statistic (ours). Up to eight values are a bin each, more go into quartiles.
    """
    options: list[tuple[str, np.ndarray]] = []
    if ratings is not None:
        options.append((f"rating ({puzzle.rating_name})" if puzzle else "rating", ratings))
    if puzzle is not None:
        options += list(puzzle.features(questions, labels).items())
    for name, values in options:
        names, index = _bins(values, guesses=puzzle is not None and name == "rating (guesses)")
        if len(names) > 1:
            return name, names, index
    return None


def _bins(values: np.ndarray, guesses: bool) -> tuple[list[str], np.ndarray]:
    if guesses:
        found, index = np.unique(bins_of(values), return_inverse=True)
        return [BIN_NAMES[b] for b in found], index
    different, index = np.unique(values, return_inverse=True)
    if len(different) <= MANY:
        return [f"{value:g}" for value in different], index
    edges = np.unique(np.quantile(values, [0, 0.25, 0.5, 0.75], method="lower"))
    index = np.searchsorted(edges, values, side="right") - 1
    return [f"{values[index == b].min():g} to {values[index == b].max():g}" for b in range(len(edges))], index


def by_difficulty(record: Record, bins: tuple[str, list[str], np.ndarray] | None) -> dict[str, Any] | None:
    """Exact and valid at every step in every bin, easiest first."""
    if bins is None:
        return None
    name, names, index = bins
    rows = []
    for b, label in enumerate(names):
        inside = index == b
        rows.append(
            {
                "bin": label,
                "puzzles": int(inside.sum()),
                "exact_by_step": record.exact[:, inside].mean(1).tolist(),
                "valid_by_step": None if record.valid is None else record.valid[:, inside].mean(1).tolist(),
            }
        )
    return {"by": name, "bins": rows}
