"""Splits of hard puzzles, chosen from many lineages: by a mix of ratings, or above a rating."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from datasets_gen.layout import DatasetError, Split
from datasets_gen.parallel import ordered_map
from datasets_gen.progress import progress
from datasets_gen.ratings import BIN_NAMES, EXTREME_MIX, bins_of, quotas
from datasets_gen.streams import STREAMS, stream
from datasets_gen.sudoku.extreme import Lineage, descend, easy_chunk
from datasets_gen.sudoku.generate import Puzzles
from datasets_gen.sudoku.solver import rate

PER_LINEAGE = 24  # puzzles of a split that may share their root
PER_BIN = 12  # of these, with a rating in the same bin
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

    Every lineage belongs to one split. With `min_rating` both the stored rating and the mean over 8 shuffles
    reach it. The bytes depend on size, counts, min_rating and seed alone.

    Raises:
        DatasetError: ratings that the search does not reach.
    """
    seen: set[int] = set()
    splits = {}
    for name in (name for name in STREAMS if counts.get(name)):
        split = STREAMS.index(name)
        wanted = np.array([counts[name]]) if min_rating else quotas(counts[name], EXTREME_MIX)
        chosen: list[tuple[np.ndarray, np.ndarray, np.int32]] = []
        lineages = (Lineage(size, seed, split, number) for number in itertools.count())
        with progress(counts[name], f"{name}: {size}x{size} Sudoku", "puzzle") as bar:
            if not min_rating:
                roots = (Lineage(size, seed, split, number) for number in itertools.count())
                for chunk in ordered_map(easy_chunk, roots, processes):
                    _take(chunk, bins_of(chunk.ratings), wanted, seen, chosen)
                    bar.update(len(chosen) - bar.n)
                    if not wanted[:2].any():
                        break
            for chunk in _patiently(ordered_map(descend, lineages, processes), wanted, min_rating):
                kinds = _reaches(chunk, min_rating) if min_rating else bins_of(chunk.ratings)
                _take(chunk, kinds, wanted, seen, chosen, PER_LINEAGE, PER_BIN)
                bar.update(len(chosen) - bar.n)
        order = stream(seed, split).random(len(chosen)).argsort()
        questions, answers, ratings = (np.array(column)[order] for column in zip(*chosen, strict=True))
        splits[name] = Split.of_puzzles(questions + 1, answers + 1, ratings)
    return splits


def _reaches(chunk: Puzzles, rating: int) -> np.ndarray:
    """0 where a puzzle reaches the rating twice over, -1 elsewhere."""
    return np.where((chunk.ratings >= rating) & (rate(chunk.questions, shuffles=8) >= rating), 0, -1)


def _take(
    chunk: Puzzles,
    kinds: np.ndarray,
    wanted: np.ndarray,
    seen: set[int],
    chosen: list[tuple[np.ndarray, np.ndarray, np.int32]],
    limit: int | None = None,
    per_kind: int | None = None,
) -> None:
    """Move new puzzles into `chosen`, as long as their kind is wanted and the limits hold, the latest first."""
    taken = np.zeros(len(wanted), np.int64)
    for index in reversed(range(len(kinds))):
        kind, signature = kinds[index], int(chunk.signatures[index])
        if kind < 0 or not wanted[kind] or signature in seen:
            continue
        if limit is not None and taken.sum() >= limit:
            return
        if per_kind is not None and len(wanted) > 1 and taken[kind] >= per_kind:
            continue
        seen.add(signature)
        wanted[kind] -= 1
        taken[kind] += 1
        chosen.append((chunk.questions[index], chunk.answers[index], chunk.ratings[index]))


def _patiently(chunks: Iterator[Puzzles], wanted: np.ndarray, min_rating: int | None) -> Iterator[Puzzles]:
    """Chunk after chunk until nothing is wanted any more."""
    barren = 0
    while wanted.any():
        before = wanted.sum()
        yield next(chunks)
        barren = barren + 1 if wanted.sum() == before else 0
        if barren == PATIENCE:
            missing = f"{min_rating}+" if min_rating else ", ".join(np.array(BIN_NAMES)[wanted > 0])
            raise DatasetError(
                f"{PATIENCE} lineages in a row brought no puzzle rated {missing}, and {wanted.sum()} are missing; "
                f"ask for fewer puzzles or a lower rating"
            )
