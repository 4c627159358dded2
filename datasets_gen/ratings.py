"""The bins in which ratings of Sudoku are counted and mixed."""

from __future__ import annotations

import itertools

import numpy as np

RATING_BINS = (0, 1, 5, 20, 50, 100)  # lower ends, in guesses
BIN_NAMES = (*(f"{a}-{b - 1}" if b > a + 1 else f"{a}" for a, b in itertools.pairwise(RATING_BINS)), "100+")
EXTREME_MIX = (0.15, 0.13, 0.25, 0.33, 0.12, 0.015)  # Sudoku-Extreme's shares of these, estimated: one shuffle of tdoku
LEVELS = (0, 0.01, 5, 15, 20, 30, 50)  # lower ends of our ratings that a set is mixed from
EXTREME_LEVELS = (0.15, 0.11, 0.01, 0.04, 0.42, 0.235, 0.035)


def bins_of(ratings: np.ndarray, bins: tuple[float, ...] = RATING_BINS) -> np.ndarray:
    """Ratings (N,) -> index of the bin of each (N,); -1 where a rating is missing (NaN)."""
    return np.where(np.isnan(ratings), -1, np.searchsorted(bins, ratings, side="right") - 1)


def rating_histogram(ratings: np.ndarray) -> dict[str, int]:
    """How many ratings fall into each bin, by its name."""
    bins = bins_of(ratings)
    counts = np.bincount(bins[bins >= 0], minlength=len(RATING_BINS))
    return dict(zip(BIN_NAMES, map(int, counts), strict=True))


def quotas(total: int, mix: tuple[float, ...]) -> np.ndarray:
    """Whole numbers in the proportions of `mix` that sum to `total`: largest remainders get the rest."""
    exact = total * np.array(mix) / sum(mix)
    whole = np.floor(exact).astype(np.int64)
    whole[np.argsort(whole - exact, kind="stable")[: total - whole.sum()]] += 1
    return whole
