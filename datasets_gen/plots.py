"""Pictures of a set: a puzzle, and how its statistics are distributed."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np

from datasets_gen.family import Puzzle
from datasets_gen.layout import DatasetError, Split
from datasets_gen.pictures import board_picture

matplotlib.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.backend_bases import FigureCanvasBase


def check_format(path: Path) -> None:
    """Refuse a name that matplotlib cannot write.

    Raises:
        DatasetError: no ending, or one that matplotlib does not write.
    """
    known = FigureCanvasBase.get_supported_filetypes()
    if path.suffix[1:].lower() not in known:
        raise DatasetError(f"{path}: {path.suffix or 'no ending'} is no kind of picture; known are {', '.join(known)}")


def picture(path: Path, puzzle: Puzzle, split: Split, index: int, statistics: dict[str, dict[str, np.ndarray]]) -> None:
    """A PNG: question and answer of one example, and a histogram for every statistic {name: {split: (N,)}}."""
    figure, axes = plt.subplots(1, 2 + len(statistics), figsize=(4 * (2 + len(statistics)), 4), layout="constrained")
    question = split.inputs[index]
    for axis, title, tokens in zip(axes, ("question", "answer"), (question, split.labels[index]), strict=False):
        axis.imshow(np.asarray(board_picture(puzzle, tokens, question, pixels=960)))
        axis.set_title(f"{title} {index}")
        axis.axis("off")
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
