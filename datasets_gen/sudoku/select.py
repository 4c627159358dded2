"""Splits of hard puzzles, chosen from many lineages: by a mix of ratings, or above a rating."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from datasets_gen.layout import DatasetError, Split
from datasets_gen.parallel import ordered_map
from datasets_gen.progress import progress
from datasets_gen.ratings import EXTREME_LEVELS, LEVELS, bins_of, quotas
from datasets_gen.streams import STREAMS, stream
from datasets_gen.sudoku.extreme import Lineage, RatedPuzzles, descend, easy_chunk

PER_LINEAGE = (40, 100)  # puzzles of a split that may share their root: of small splits, of large ones
LINEAGES = 50  # in a split between the two, if every one gives what it may
PATIENCE = 64  # lineages in a row that bring nothing before giving up


def extreme_splits(
    size: int,
    counts: dict[str, int],
    *,
    min_rating: int | None = None,
    seed: int = 0,
    processes: int | None = None,
) -> dict[str, Split]:
    """Splits of `counts` puzzles with the rating mix of Sudoku-Extreme, or all rated at least `min_rating`.

    Every lineage belongs to one split. The bytes depend on size, counts, min_rating and seed alone.

    Raises:
        DatasetError: ratings that the search does not reach.
    """
    seen: set[int] = set()
    splits = {}
    lowest = (min_rating,) if min_rating else LEVELS
    for name in (name for name in STREAMS if counts.get(name)):
        split = STREAMS.index(name)
        wanted = np.array([counts[name]]) if min_rating else quotas(counts[name], EXTREME_LEVELS)
        chosen: list[tuple[np.ndarray, np.ndarray, np.float64]] = []
        limit = min(max(counts[name] // LINEAGES, PER_LINEAGE[0]), PER_LINEAGE[1])
        lineages = (Lineage(size, seed, split, number, limit) for number in itertools.count())
        with progress(counts[name], f"{name}: {size}x{size} Sudoku", "puzzle") as bar:
            if not min_rating:
                roots = (Lineage(size, seed, split, number) for number in itertools.count())
                for chunk in ordered_map(easy_chunk, roots, processes):
                    easy = np.where(bins_of(chunk.ratings, LEVELS) < 2, bins_of(chunk.ratings, LEVELS), -1)
                    _take(chunk, easy, wanted, seen, chosen)
                    bar.update(len(chosen) - bar.n)
                    if not wanted[:2].any():
                        break
            for chunk in _patiently(ordered_map(descend, lineages, processes), wanted, lowest):
                _take(chunk, bins_of(chunk.ratings, lowest), wanted, seen, chosen, limit)
                bar.update(len(chosen) - bar.n)
        order = stream(seed, split).random(len(chosen)).argsort()
        questions, answers, ratings = (np.array(column)[order] for column in zip(*chosen, strict=True))
        splits[name] = Split.of_puzzles(questions + 1, answers + 1, ratings)
    return splits


def _take(
    chunk: RatedPuzzles,
    levels: np.ndarray,
    wanted: np.ndarray,
    seen: set[int],
    chosen: list[tuple[np.ndarray, np.ndarray, np.float64]],
    limit: int | None = None,
) -> None:
    """Move new puzzles into `chosen`, as long as their level is wanted and the limits hold."""
    taken = np.zeros(len(wanted), np.int64)
    for index, level in enumerate(levels):
        signature = int(chunk.signatures[index])
        if level < 0 or not wanted[level] or signature in seen:
            continue
        if limit is not None and (taken.sum() == limit or (len(wanted) > 1 and taken[level] == limit // 2)):
            continue
        seen.add(signature)
        wanted[level] -= 1
        taken[level] += 1
        chosen.append((chunk.questions[index], chunk.answers[index], chunk.ratings[index]))


def _patiently(chunks: Iterator[RatedPuzzles], wanted: np.ndarray, lowest: tuple[float, ...]) -> Iterator[RatedPuzzles]:
    """Chunk after chunk until nothing is wanted any more."""
    barren = 0
    while wanted.any():
        before = wanted.sum()
        yield next(chunks)
        barren = barren + 1 if wanted.sum() == before else 0
        if barren == PATIENCE:
            missing = ", ".join(f"{low:g}+" for low, count in zip(lowest, wanted, strict=True) if count)
            raise DatasetError(
                f"{PATIENCE} lineages in a row brought no puzzle rated {missing}, and {wanted.sum()} are missing; "
                f"ask for fewer puzzles or a lower rating"
            )
