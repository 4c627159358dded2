"""The mix `extreme`: easy puzzles, random or of few clues, and the puzzles of depth 2 that `deepen` finds."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from datasets_gen.extensions.extreme.deep import deepen
from datasets_gen.extensions.extreme.guesses import guesses
from datasets_gen.extensions.extreme.neighbours import Puzzle, of_few_clues
from datasets_gen.layout import Split
from datasets_gen.parallel import ORDER, Chunk, ordered_map, seeded, share
from datasets_gen.progress import Progress
from datasets_gen.sudoku.signature import signatures
from datasets_gen.sudoku.solver import full_grid, thin

NO_GUESS, FEW_GUESSES, DEEP = range(3)  # kinds of puzzles
SHARES = (0.15, 0.12, 0.73)  # of each kind in a split
FEW = 5  # a puzzle of few guesses needs fewer than this
LINEAGES = 10  # each gives at most its share of a split if there were so many,
MOST = 500  # and at most so many puzzles
FEWEST = 40  # puzzles of a split that may share their lineage, in small splits
CHUNK = 64  # random boards per task
WALKS = 8  # to puzzles of few clues, beside a chunk of random ones
PER_WALK = 8  # puzzles, each with a solution of another class
EXTRA_CLUES = 12  # at most so many clues above a minimal puzzle where no guess is needed


class Found(NamedTuple):
    """A puzzle that a task found."""

    kind: int
    signature: int
    puzzle: Puzzle


def _found(kinds: Iterable[int], questions: np.ndarray, answers: np.ndarray) -> list[Found]:
    puzzles = zip(questions, answers, strict=True)
    return [Found(*each) for each in zip(kinds, signatures(questions, answers).tolist(), puzzles, strict=True)]


def easy_puzzles(task: Chunk) -> list[Found]:
    """`CHUNK` random minimal puzzles, and those of few clues that `WALKS` walks find; without hard ones.

    Random puzzles that need no guess get up to `EXTRA_CLUES` more: the easy part of Sudoku-Extreme is what raises its
    mean number of clues.
    """
    rng = seeded(task.seed, task.split, task.number, 0)
    answers = np.array([full_grid(9, rng) for _ in range(CHUNK)])
    questions = np.array([thin(answer, rng) for answer in answers])
    needed = guesses(questions)
    for index in np.flatnonzero(needed == 0):  # more clues leave it 0
        blanks = np.flatnonzero(questions[index] == 0)
        order = rng.random(len(blanks)).argsort()
        more = blanks[order[: int(rng.random() * (EXTRA_CLUES + 1))]]
        questions[index, more] = answers[index, more]
    if walked := [puzzle for _ in range(WALKS) for puzzle in of_few_clues(PER_WALK, rng)]:
        few, few_answers = map(np.array, zip(*walked, strict=True))
        questions, answers = np.concatenate([questions, few]), np.concatenate([answers, few_answers])
        needed = np.concatenate([needed, guesses(few)])
    easy = needed < FEW
    kinds = np.where(needed == 0, NO_GUESS, FEW_GUESSES)
    return _found(kinds[easy].tolist(), questions[easy], answers[easy])


def deep_puzzles(task: Chunk) -> list[Found]:
    """The puzzles of depth 2 of a lineage."""
    questions, answers = deepen(task)
    return _found([DEEP] * len(questions), questions, answers)


def quotas(total: int) -> np.ndarray:
    """Whole numbers in the proportions of `SHARES` that sum to `total`: largest remainders get the rest."""
    exact = total * np.array(SHARES)
    whole = np.floor(exact).astype(np.int64)
    whole[np.argsort(whole - exact, kind="stable")[: total - whole.sum()]] += 1
    return whole


def mixed_splits(counts: dict[str, int], *, seed: int = 0, processes: int | None = None) -> dict[str, Split]:
    """Splits of `counts` 9×9 puzzles. Every lineage belongs to one split. The bytes depend on counts and seed alone."""
    seen: set[int] = set()
    splits = {}
    for name in (name for name in ORDER if counts.get(name)):
        split, chosen = ORDER.index(name), list[Puzzle]()
        wanted = [share(count) for count in quotas(counts[name]).tolist()]
        of_one = min(max(counts[name] // LINEAGES, FEWEST), MOST)
        with Progress(total=sum(wanted), desc=f"{name}: 9x9 Sudoku", unit="puzzle") as bar:
            for search, kinds, limit in (
                (easy_puzzles, (NO_GUESS, FEW_GUESSES), counts[name]),
                (deep_puzzles, (DEEP,), of_one),
            ):
                tasks = (Chunk(limit, seed, split, number) for number in itertools.count())
                for found in ordered_map(search, tasks, processes) if any(wanted[kind] for kind in kinds) else ():
                    left = limit
                    for kind, signature, puzzle in found:
                        if left and wanted[kind] and signature not in seen:
                            seen.add(signature)
                            chosen.append(puzzle)
                            wanted[kind] -= 1
                            left -= 1
                    bar.update(len(chosen) - bar.n)
                    if not any(wanted[kind] for kind in kinds):
                        break
        order = seeded(seed, split).random(len(chosen)).argsort()
        questions, answers = (np.array(column)[order] for column in zip(*chosen, strict=True))
        splits[name] = Split.of_puzzles(questions + 1, answers + 1)
    return splits
