"""`python -m datasets_gen sudoku`: generates puzzles with one solution, minimal or with a fixed number of clues."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np

from datasets_gen.arguments import add_command, add_output, check_counts, save
from datasets_gen.layout import DatasetError, Split
from datasets_gen.parallel import Chunk, distinct
from datasets_gen.plugins import installed
from datasets_gen.sudoku import Sudoku
from datasets_gen.sudoku.signature import signatures
from datasets_gen.sudoku.solver import full_grid, thin
from datasets_gen.sudoku.tables import BOXES

CHUNK = 64  # random boards per task
Puzzle = tuple[np.ndarray, np.ndarray]  # question and answer (S,)
MIXES: dict[str, Callable[..., dict[str, Split]]] = {}  # of extensions: (counts, *, seed, processes) -> splits
FEWEST_CLUES = {4: 4, 6: 8, 9: 17}  # puzzles with fewer clues have several solutions (McGuire et al. 2012 for 9)
PAGE = """Generate Sudoku puzzles with one solution.

No two puzzles of a set, within or across its splits, are equivalent under relabelling, moves of rows and columns, and
transposition (4x4: under relabelling). The same options and seed give the same bytes.

  python -m datasets_gen sudoku --output-dir data/sudoku                   1,000 + 1,000 minimal 9x9 puzzles
  python -m datasets_gen sudoku --size 6 --train 2500 --validation 500 --test 1000 --output-dir data/sudoku6
  python -m datasets_gen sudoku --clues 30 --seed 7 --output-dir data/sudoku-30
  python -m datasets_gen sudoku --mix extreme --output-dir data/sudoku-deep         73 % of depth 2; minutes
"""


def add_parser(commands: argparse._SubParsersAction) -> None:
    """Add the `sudoku` command."""
    parser = add_command(commands, "sudoku", run, PAGE)
    add_output(parser, train=1000, test=1000)
    parser.add_argument("--size", type=int, choices=BOXES, default=9, help="rows of the board (default 9)")
    kind = parser.add_mutually_exclusive_group()
    help = "clues of each puzzle (default: minimal puzzles, which need every clue)"
    kind.add_argument("--clues", type=int, metavar="N", help=help)
    help = "extreme: 9x9 only, takes many minutes: 73 %% of the puzzles have depth 2, as the forums' hardest have"
    kind.add_argument("--mix", help=help)


def run(options: argparse.Namespace) -> None:
    """Generate and save the set."""
    counts = check_counts(options)
    size, processes = options.size, options.processes
    if options.mix is None:
        splits = random_splits(size, counts, clues=options.clues, seed=options.seed, processes=processes)
    elif options.mix not in MIXES:
        raise DatasetError(f"--mix {options.mix}: no extension has this mix; {installed()}")
    elif size != 9:
        raise DatasetError(f"--mix {options.mix} is a mix of 9x9 puzzles; remove it, or --size {size}")
    else:
        splits = MIXES[options.mix](counts, seed=options.seed, processes=processes)
    chosen = {name: value for name in ("clues", "mix") if (value := getattr(options, name)) is not None}
    save(options, Sudoku(size), splits, {"size": size, **chosen}, {})


def random_chunk(chunk: Chunk) -> list[tuple[int, Puzzle]]:
    """Return puzzles of `CHUNK` random boards with their signatures, without those with more clues than requested.

    chunk.kind: the size, and the clues or None.
    """
    (size, clues), rng = chunk.kind, chunk.rng
    answers = np.array([full_grid(size, rng) for _ in range(CHUNK)])
    questions = np.array([thin(answer, rng, clues=clues or 0) for answer in answers])
    kept = (questions > 0).sum(1) == clues if clues else np.ones(CHUNK, bool)
    questions, answers = questions[kept], answers[kept]
    return list(zip(signatures(questions, answers).tolist(), zip(questions, answers, strict=True), strict=True))


def random_splits(
    size: int, counts: dict[str, int], *, clues: int | None = None, seed: int = 0, processes: int | None = None
) -> dict[str, Split]:
    """Return splits of `counts` puzzles; no two of all splits are equivalent under the board's symmetries."""
    fewest, most = FEWEST_CLUES[size], size * size - 1
    if clues is not None and not fewest <= clues <= most:
        raise DatasetError(f"--clues {clues}: choose {fewest} to {most}, or none for minimal puzzles")

    def hopeless(_: Any, misses: int, puzzles: int) -> bool:
        if (boards := misses * CHUNK) <= 20_000 + 20 * puzzles:
            return False
        kind = "minimal puzzles" if clues is None else f"puzzles with {clues} clues"
        raise DatasetError(
            f"only {puzzles} different {kind} were generated, and {boards:,} more boards gave no other; "
            "request fewer puzzles, another number of clues or a larger board"
        )

    what = f"{size}x{size} Sudoku"
    drawn: dict[str, list[Puzzle]] = distinct(random_chunk, (size, clues), counts, seed, processes, what, hopeless)
    return {name: Split.of_puzzles(*(np.array(some).swapaxes(0, 1) + 1)) for name, some in drawn.items()}  # (2, N, S)
