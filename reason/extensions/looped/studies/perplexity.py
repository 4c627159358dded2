"""Perplexity of text by loop: e to the mean cross-entropy of a token, with an interval over documents."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from scipy.stats import t as student
from torch import Tensor

from reason.data.puzzles import PuzzleData
from reason.evaluation.evaluator import Columns, Consumer, Evaluator
from reason.report.chart import Chart, log_axis, plot_band, steps_axis
from reason.report.section import Results, Section, Table, number, rows_shown


def is_text(evaluator: Evaluator) -> bool:
    """Return whether the set is text."""
    return hasattr(evaluator.puzzle, "bytes_of")


def sources_of(data: PuzzleData, examples: Tensor) -> np.ndarray:
    """Return the index (N,) of the source of each example's puzzle in dataset.json's `sources`."""
    puzzles = data.puzzle_of(examples).cpu().numpy()
    return puzzles * 0 if data.sources is None else np.asarray(data.sources[puzzles])


class Perplexity(Consumer):
    """Sums over scored tokens, from `Signals`' loss and `Accuracy`'s counts."""

    def result(self, seen: Columns) -> dict[str, Any]:
        """Return by loop: perplexity of a token, its 95 % interval over documents, and bits for each byte of the text.

        The interval is that of a ratio of sums over clusters, here documents, by Student's t; None for one document.
        """
        data, puzzle = self.evaluator.data, self.evaluator.puzzle
        tokens = seen["scored"][0].astype(np.float64)  # (N,)
        nats = seen["loss"].astype(np.float64) * tokens  # (T, N)
        bytes_ = 0
        for rows in self.evaluator.examples.split(1024):
            for labels in data.tokens_of(rows)[1]:
                bytes_ += puzzle.bytes_of(labels[labels > 0])  # type: ignore[union-attr]
        _, document = np.unique(sources_of(data, self.evaluator.examples), return_inverse=True)
        count = int(document.max()) + 1
        mean = nats.sum(1) / tokens.sum()  # (T,)
        excess = np.stack([np.bincount(document, row) for row in nats - mean[:, None] * tokens])  # (T, documents)
        error = np.sqrt((excess**2).sum(1) * count / max(count - 1, 1)) / tokens.sum()
        reach = student.ppf(0.975, count - 1) * error if count > 1 else np.full(len(mean), np.nan)
        return {
            "perplexity_by_step": np.exp(mean).tolist(),
            "perplexity": {
                "tokens": int(tokens.sum()),
                "bytes": bytes_,
                "documents": count,
                "interval": np.exp([mean - reach, mean + reach]).tolist(),
                "bits_per_byte": (nats.sum(1) / np.log(2) / bytes_).tolist(),
            },
        }


def _tables(results: Results) -> list[Table]:
    text, steps, trained = results["perplexity"], results["steps"], results["trained_steps"]
    rows = [
        [
            f"{step} (trained)" if step == trained else str(step),
            number(value, ".4g"),
            "–" if low is None else f"{low:.4g}–{high:.4g}",
            number(bits, ".3f"),
        ]
        for step, value, low, high, bits in zip(
            range(1, steps + 1), results["perplexity_by_step"], *text["interval"], text["bits_per_byte"], strict=True
        )
    ]
    title = f"perplexity by loop, {text['tokens']:,} tokens of {text['documents']} documents"
    columns = ("loop", "perplexity", "95 % interval", "bits per byte")
    return [Table(title, columns, rows, first=rows_shown(steps, trained))]


def _charts(results: Results) -> list[Chart]:
    values = results["perplexity_by_step"]

    def draw(axes: Axes) -> None:
        low, high = results["perplexity"]["interval"]
        plot_band(axes, values, low, high, "perplexity")
        log_axis(axes, "y")
        axes.set_ylabel("perplexity")
        steps_axis(axes, results)
        axes.set_xlabel("loops")

    last, trained = results["steps"], min(results["trained_steps"], results["steps"])
    alt_text = ", ".join(f"{number(values[m - 1], '.4g')} after loop {m}" for m in sorted({1, trained, last}))
    return [Chart("perplexity by loop", alt_text, draw)]


NOTE = """e to the mean cross-entropy of a scored token. The interval is over documents. Bits per byte count bytes of
the text, so that they can be compared between vocabularies."""

PERPLEXITY = Section("perplexity", "Perplexity", _tables, {"perplexity_by_step": _charts}, lambda _: NOTE, order=1)
