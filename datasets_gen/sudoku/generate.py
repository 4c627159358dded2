"""Random Sudoku puzzles with one solution: minimal ones, or with a given number of clues."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from datasets_gen.layout import DatasetError, Split
from datasets_gen.parallel import ordered_map
from datasets_gen.progress import progress
from datasets_gen.streams import STREAMS, stream
from datasets_gen.sudoku import Sudoku
from datasets_gen.sudoku.construct import full_grid, thin
from datasets_gen.sudoku.rating import rate
from datasets_gen.sudoku.signature import signatures

FEWEST_CLUES = {4: 4, 6: 8, 9: 17}  # no puzzle with fewer has one solution (McGuire et al. 2012 for 9)
CHUNK = 64  # boards per task


@dataclass(frozen=True)
class Chunk:
    """One task: `CHUNK` random boards from the stream of its own that (seed, split, number) names."""

    size: int
    clues: int | None
    seed: int
    split: int
    number: int


class Puzzles(NamedTuple):
    """N puzzles."""

    questions: np.ndarray  # (N, S) digits, 0 blank
    answers: np.ndarray  # (N, S)
    signatures: np.ndarray  # (N,) uint64


def random_chunk(chunk: Chunk) -> Puzzles:
    """The puzzles of one task: `CHUNK`, or fewer where thinning ended above the asked number of clues."""
    rng = stream(chunk.seed, chunk.split, chunk.number)
    answers = np.array([full_grid(chunk.size, rng) for _ in range(CHUNK)])
    questions = np.array([thin(answer, answer, rng, clues=chunk.clues or 0) for answer in answers])
    kept = (questions > 0).sum(1) == chunk.clues if chunk.clues else np.ones(CHUNK, bool)
    questions, answers = questions[kept], answers[kept]
    return Puzzles(questions, answers, signatures(questions, answers))


def random_splits(
    size: int,
    counts: dict[str, int],
    *,
    clues: int | None = None,
    seed: int = 0,
    processes: int | None = None,
) -> dict[str, Split]:
    """Splits of `counts` puzzles each, no two of all of them equivalent under the board's symmetries.

    The bytes depend on size, counts, clues and seed alone.

    Raises:
        DatasetError: an impossible number of clues, or more puzzles than were found to exist.
    """
    cells = size * size
    fewest = FEWEST_CLUES[Sudoku(size).size]
    if clues is not None and not fewest <= clues < cells:
        raise DatasetError(
            f"--clues {clues}: a {size}x{size} puzzle has at least {fewest}, and with {cells} "
            f"nothing is left to solve; choose {fewest} to {cells - 1}, or none for minimal puzzles"
        )
    seen: set[int] = set()
    splits = {}
    for name in (name for name in STREAMS if counts.get(name)):
        tasks = (Chunk(size, clues, seed, STREAMS.index(name), number) for number in itertools.count())
        with progress(counts[name], f"{name}: {size}x{size} Sudoku", "puzzle") as bar:
            chosen = []
            for puzzle in _distinct(ordered_map(random_chunk, tasks, processes), seen, clues):
                chosen.append(puzzle)
                bar.update()
                if len(chosen) == counts[name]:
                    break
        questions, answers = (np.array(column) for column in zip(*chosen, strict=True))
        parts = np.array_split(questions, -(-len(questions) // CHUNK))
        ratings = np.concatenate(list(ordered_map(rate, parts, processes)))
        splits[name] = Split.of_puzzles(questions + 1, answers + 1, ratings)
    return splits


def _distinct(chunks: Iterator[Puzzles], seen: set[int], clues: int | None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The puzzles whose signature is new; gives up when chunk after chunk brings none."""
    barren = 0
    for chunk in chunks:
        before = len(seen)
        for question, answer, signature in zip(*chunk, strict=True):
            if int(signature) not in seen:
                seen.add(int(signature))
                yield question, answer
        barren = 0 if len(seen) > before else barren + CHUNK
        if barren > 20_000 + 20 * len(seen):
            kind = "minimal puzzles" if clues is None else f"puzzles with {clues} clues"
            raise DatasetError(
                f"only {len(seen)} different {kind} were found, and {barren:,} more boards brought none; "
                f"ask for fewer puzzles, {'another' if clues else 'a'} number of clues or a larger board"
            )
