"""`python -m datasets_gen sudoku`."""

from __future__ import annotations

import argparse

from datasets_gen.arguments import add_output, check_counts, save
from datasets_gen.sudoku import Sudoku
from datasets_gen.sudoku.generate import random_splits
from datasets_gen.sudoku.geometry import BOXES

EXAMPLES = """\
examples:
  python -m datasets_gen sudoku --output-dir data/sudoku                   1,000 + 1,000 minimal 9x9 puzzles
  python -m datasets_gen sudoku --size 6 --train 2500 --validation 500 --test 1000 --output-dir data/sudoku6
  python -m datasets_gen sudoku --clues 30 --seed 7 --output-dir data/sudoku-30
"""


def add_parser(commands: argparse._SubParsersAction) -> None:
    """Add the `sudoku` command."""
    parser = commands.add_parser(
        "sudoku",
        help="generate Sudoku puzzles with one solution",
        description="Random Sudoku puzzles, every one with exactly one solution. No two puzzles of a set, "
        "within or across its splits, turn into one another by relabelling, moving rows and columns or "
        "transposing (4x4: by relabelling). Same options and seed, same bytes.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_output(parser, train=1000, test=1000)
    parser.add_argument("--size", type=int, choices=BOXES, default=9, help="rows of the board (default 9)")
    parser.add_argument(
        "--clues",
        type=int,
        metavar="N",
        help="digits given in each puzzle (default: minimal puzzles, where every digit given is needed)",
    )
    parser.set_defaults(command=run)


def run(options: argparse.Namespace) -> None:
    """Generate and save."""
    counts = check_counts(options)
    puzzle = Sudoku(options.size)
    splits = random_splits(
        options.size, counts, clues=options.clues, seed=options.seed, processes=options.processes
    )
    made_by = {"size": options.size} | ({"clues": options.clues} if options.clues is not None else {})
    save(options, puzzle, splits, "sudoku", made_by)
