"""`python -m datasets_gen sudoku`."""

from __future__ import annotations

import argparse

from datasets_gen.arguments import add_output, check_counts, save
from datasets_gen.layout import DatasetError
from datasets_gen.ratings import rating_histogram
from datasets_gen.sudoku import Sudoku
from datasets_gen.sudoku.generate import random_splits
from datasets_gen.sudoku.geometry import BOXES
from datasets_gen.sudoku.select import extreme_splits

EXAMPLES = """\
examples:
  python -m datasets_gen sudoku --output-dir data/sudoku                   1,000 + 1,000 minimal 9x9 puzzles
  python -m datasets_gen sudoku --size 6 --train 2500 --validation 500 --test 1000 --output-dir data/sudoku6
  python -m datasets_gen sudoku --clues 30 --seed 7 --output-dir data/sudoku-30
  python -m datasets_gen sudoku --mix extreme --test 5000 --output-dir data/sudoku-extreme   some 20 minutes of one core
  python -m datasets_gen sudoku --min-rating 30 --train 200 --test 0 --output-dir data/sudoku-hard
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
    )
    add_output(parser, train=1000, test=1000)
    parser.add_argument("--size", type=int, choices=BOXES, default=9, help="rows of the board (default 9)")
    parser.add_argument(
        "--clues",
        type=int,
        metavar="N",
        help="digits given in each puzzle (default: minimal puzzles, where every digit given is needed)",
    )
    parser.add_argument(
        "--mix", choices=["extreme"], help="ratings in the proportions of Sudoku-Extreme (9x9; many minutes)"
    )
    parser.add_argument(
        "--min-rating", type=int, metavar="R", help="only puzzles rated R guesses or more (many minutes)"
    )
    parser.set_defaults(command=run)


def run(options: argparse.Namespace) -> None:
    """Generate and save."""
    counts = check_counts(options)
    puzzle = Sudoku(options.size)
    chosen = {name: getattr(options, name) for name in ("clues", "mix", "min_rating")}
    chosen = {name: value for name, value in chosen.items() if value is not None}
    if len(chosen) > 1:
        raise DatasetError("--clues, --mix and --min-rating exclude one another; keep one of them")
    if options.mix and options.size != 9:
        raise DatasetError(f"--mix extreme is a mix of 9x9 puzzles; drop it, or --size {options.size}")
    if options.min_rating is not None and options.min_rating < 1:
        raise DatasetError(f"--min-rating {options.min_rating}: give a whole number from 1")
    if options.mix or options.min_rating:
        splits = extreme_splits(
            options.size,
            counts,
            min_rating=options.min_rating,
            seed=options.seed,
            processes=options.processes,
        )
    else:
        splits = random_splits(
            options.size, counts, clues=options.clues, seed=options.seed, processes=options.processes
        )
    ratings = {name: split.ratings for name, split in splits.items() if split.ratings is not None}
    facts = {
        "ratings": {name: rating_histogram(values) for name, values in ratings.items()},
        "mean_rating": {name: round(float(values.mean()), 2) for name, values in ratings.items()},
    }
    save(options, puzzle, splits, "sudoku", {"size": options.size, **chosen}, facts)
