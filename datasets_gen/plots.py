"""Pictures of a set: a puzzle, and how its statistics are distributed."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np

from datasets_gen.layout import DatasetError, Split
from datasets_gen.puzzles import Puzzle

matplotlib.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.backend_bases import FigureCanvasBase


def check_format(path: Path) -> None:
    """Whether a picture may have this name.

    Raises:
        DatasetError: no ending, or one that matplotlib does not write.
    """
    known = FigureCanvasBase.get_supported_filetypes()
    if path.suffix[1:].lower() not in known:
        raise DatasetError(f"{path}: {path.suffix or 'no ending'} is no kind of picture; known are {', '.join(known)}")


def picture(path: Path, puzzle: Puzzle, split: Split, index: int, statistics: dict[str, dict[str, np.ndarray]]) -> None:
    """A PNG: question and answer of one example, and a histogram for every statistic {name: {split: (N,)}}."""
    figure, axes = plt.subplots(1, 2 + len(statistics), figsize=(4 * (2 + len(statistics)), 4), layout="constrained")
    for axis, title, tokens in zip(axes, ("question", "answer"), (split.inputs, split.labels), strict=False):
        _board(axis, puzzle, tokens[index])
        axis.set_title(f"{title} {index}")
    for axis, (name, values) in zip(axes[2:], statistics.items(), strict=True):
        histogram(axis, name, values)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def histogram(axis: plt.Axes, name: str, values: dict[str, np.ndarray]) -> None:
    """Shares of the examples of every split, over common bins."""
    joined = np.concatenate(list(values.values()))
    whole = np.issubdtype(joined.dtype, np.integer)
    low, high = float(joined.min()), float(joined.max())
    step = max(1.0, np.ceil((high - low + 1) / 30)) if whole else (high - low) / 30 or 1.0
    bins = np.arange(low - (0.5 if whole else 0), high + 1.5 * step, step)
    for split, one in values.items():
        axis.hist(one, bins.tolist(), weights=np.full(len(one), 1 / len(one)), histtype="step", label=split)
    axis.set_xlabel(name)
    axis.set_ylabel("share of examples")
    axis.legend()


def _board(axis: plt.Axes, puzzle: Puzzle, tokens: np.ndarray) -> None:
    grid = tokens.reshape(puzzle.grid_shape)
    axis.imshow(grid, cmap="tab20", vmin=0, vmax=max(puzzle.vocab_size - 1, 1), aspect="auto" if len(grid) == 1 else 1)
    if puzzle.task["name"] == "sudoku":
        for (row, column), token in np.ndenumerate(grid):
            axis.text(column, row, str(token - 1) if token > 1 else "", ha="center", va="center")
    axis.set_xticks([])
    axis.set_yticks([])
