"""Sets of Sudokus mixed by rating: random puzzles for the easy part, and what a search finds for the hard part."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from datasets_gen.layout import DatasetError, Split
from datasets_gen.parallel import ORDER, ordered_map, seeded
from datasets_gen.progress import Progress
from datasets_gen.shards import share
from datasets_gen.sudoku import bins_of
from datasets_gen.sudoku.branching import thin
from datasets_gen.sudoku.deep import deepen
from datasets_gen.sudoku.extreme import Lineage, RatedPuzzles, descend
from datasets_gen.sudoku.neighbours import of_few_clues
from datasets_gen.sudoku.rating import rate
from datasets_gen.sudoku.signature import signatures
from datasets_gen.sudoku.solver import full_grid

CHUNK = 64  # boards per task
FEWEST = 40  # puzzles of a split that may share their lineage, in small splits
PATIENCE = 64  # lineages in a row that bring nothing before giving up
WALKS = 8  # to puzzles of few clues, for a chunk of random ones
PER_WALK = 8  # puzzles, each with a solution of another class
EXTRA_CLUES = 12  # at most so many clues above a minimal puzzle where no guess is needed


class Mix(NamedTuple):
    """Levels of rating and their shares: those of random puzzles first, then those of searched ones."""

    easy: tuple[float, ...]  # lower ends of the first levels, and the upper end of the last of these
    hard: tuple[float, ...]  # lower ends of the others
    shares: tuple[float, ...]
    search: Callable[[Lineage], RatedPuzzles]
    lineages: int  # one gives at most its share of a split if there were so many,
    most: int  # and at most so many puzzles
    random: Callable[[Lineage], RatedPuzzles]  # a chunk of easy puzzles

    def easy_levels(self, ratings: np.ndarray) -> np.ndarray:
        """(N,) -1 where a random puzzle is of none."""
        bins = bins_of(ratings, self.easy)
        return np.where(bins < len(self.easy) - 1, bins, -1)

    def hard_levels(self, ratings: np.ndarray) -> np.ndarray:
        """(N,) -1 where a searched puzzle is of none."""
        bins = bins_of(ratings, self.hard)
        return np.where(bins < 0, -1, bins + len(self.shares) - len(self.hard))


def easy_chunk(lineage: Lineage) -> RatedPuzzles:
    """`CHUNK` random puzzles, each a lineage of its own; minimal, but for those that need no guess.

    These get up to `EXTRA_CLUES` more: the easy part of Sudoku-Extreme is what raises its mean number of clues.
    """
    return _easy(lineage, 0)


def easy_and_few_chunk(lineage: Lineage) -> RatedPuzzles:
    """The same, and the puzzles of few clues that `WALKS` walks find."""
    return _easy(lineage, WALKS)


def _easy(lineage: Lineage, walks: int) -> RatedPuzzles:
    rng = seeded(lineage.seed, lineage.split, lineage.number, 0)
    answers = np.array([full_grid(lineage.size, rng) for _ in range(CHUNK)])
    questions = np.array([thin(answer, answer, rng) for answer in answers])
    ratings = rate(questions)
    for index in np.flatnonzero(ratings == 0):  # more clues leave it 0
        blanks = np.flatnonzero(questions[index] == 0)
        order = rng.random(len(blanks)).argsort()
        more = blanks[order[: int(rng.random() * (EXTRA_CLUES + 1))]]
        questions[index, more] = answers[index, more]
    if found := [puzzle for _ in range(walks) for puzzle in of_few_clues(PER_WALK, rng)]:
        few, few_answers = map(np.array, zip(*found, strict=True))
        questions, answers = np.concatenate([questions, few]), np.concatenate([answers, few_answers])
        ratings = np.concatenate([ratings, rate(few)])
    return RatedPuzzles(questions, answers, ratings, signatures(questions, answers))


MIXES = {
    # 73 % of depth 2
    "extreme": Mix((0, 0.01, 5), (0,), (0.15, 0.12, 0.73), deepen, 10, 500, easy_and_few_chunk),
    # the guesses of Sudoku-Extreme alone; shares fitted on our scale of ratings
    "guesses": Mix(
        (0, 0.01, 5), (5, 15, 20, 30, 50), (0.15, 0.11, 0.01, 0.04, 0.42, 0.235, 0.035), descend, 50, 100, easy_chunk
    ),
}


def of_rating(least: float) -> Mix:
    """Searched puzzles of this rating or more."""
    return MIXES["guesses"]._replace(easy=(), hard=(least,), shares=(1.0,))


def quotas(total: int, mix: tuple[float, ...]) -> np.ndarray:
    """Whole numbers in the proportions of `mix` that sum to `total`: largest remainders get the rest."""
    exact = total * np.array(mix) / sum(mix)
    whole = np.floor(exact).astype(np.int64)
    whole[np.argsort(whole - exact, kind="stable")[: total - whole.sum()]] += 1
    return whole


def mixed_splits(
    size: int, counts: dict[str, int], mix: Mix, *, seed: int = 0, processes: int | None = None
) -> dict[str, Split]:
    """Splits of `counts` puzzles in the proportions of a mix.

    Every lineage belongs to one split. The bytes depend on size, counts, mix and seed alone.

    Raises:
        DatasetError: ratings that the search does not reach.
    """
    seen: set[int] = set()
    splits = {}
    for name in (name for name in ORDER if counts.get(name)):
        split = ORDER.index(name)
        wanted = np.array([share(count) for count in quotas(counts[name], mix.shares).tolist()])
        chosen: list[tuple[np.ndarray, np.ndarray, np.float64]] = []
        limit = min(max(counts[name] // mix.lineages, FEWEST), mix.most)
        per_level = limit if len(mix.hard) == 1 else limit // 2
        lineages = (Lineage(size, seed, split, number, limit) for number in itertools.count())
        with Progress(total=int(wanted.sum()), desc=f"{name}: {size}x{size} Sudoku", unit="puzzle") as bar:
            easy = wanted[: len(mix.shares) - len(mix.hard)]
            roots = (Lineage(size, seed, split, number) for number in itertools.count())
            for chunk in ordered_map(mix.random, roots, processes) if easy.any() else ():
                _take(chunk, mix.easy_levels(chunk.ratings), wanted, seen, chosen)
                bar.update(len(chosen) - bar.n)
                if not easy.any():
                    break
            barren = 0
            for chunk in ordered_map(mix.search, lineages, processes) if wanted.any() else ():
                found = _take(chunk, mix.hard_levels(chunk.ratings), wanted, seen, chosen, limit, per_level)
                bar.update(len(chosen) - bar.n)
                barren = 0 if found else barren + 1
                if not wanted.any():
                    break
                if barren == PATIENCE:
                    left = zip(mix.hard, wanted[len(easy) :], strict=True)
                    missing = ", ".join(f"{low:g}+" for low, count in left if count)
                    raise DatasetError(
                        f"{PATIENCE} lineages in a row brought no puzzle rated {missing}, and {wanted.sum()} are "
                        f"missing; ask for fewer puzzles or a lower rating"
                    )
        order = seeded(seed, split).random(len(chosen)).argsort()
        questions, answers, ratings = (np.array(column)[order] for column in zip(*chosen, strict=True))
        splits[name] = Split.of_puzzles(questions + 1, answers + 1, ratings)
    return splits


def _take(
    chunk: RatedPuzzles,
    levels: np.ndarray,
    wanted: np.ndarray,
    seen: set[int],
    chosen: list[tuple[np.ndarray, np.ndarray, np.float64]],
    limit: float = np.inf,
    per_level: float = np.inf,
) -> bool:
    """Move new puzzles into `chosen`, as long as their level is wanted and the limits hold; were there any?"""
    taken = np.zeros(len(wanted), np.int64)
    for index, level in enumerate(levels):
        signature = int(chunk.signatures[index])
        if level < 0 or not wanted[level] or signature in seen:
            continue
        if taken.sum() == limit or taken[level] == per_level:
            continue
        seen.add(signature)
        wanted[level] -= 1
        taken[level] += 1
        chosen.append((chunk.questions[index], chunk.answers[index], chunk.ratings[index]))
    return bool(taken.any())
