"""`python -m datasets_gen maze`."""

from __future__ import annotations

import argparse

from datasets_gen.arguments import add_output, check_counts, save
from datasets_gen.layout import DatasetError
from datasets_gen.maze import Maze
from datasets_gen.maze.generate import Kind, maze_splits

DENSITY = (0.2, 0.5)  # uniform between the two: fits Maze-Hard, whose sparsest maze has 28 % walls
PATH_SHARE = 110 / 900  # the published 110 cells of 30×30, kept in proportion at other sizes

EXAMPLES = """\
examples:
  python -m datasets_gen maze --output-dir data/maze                       as Maze-Hard: 30x30, 110 cells or more
  python -m datasets_gen maze --size 10 --min-path 18 --train 2000 --output-dir data/maze10
  python -m datasets_gen maze --size 12 --unique --wall-density 0.4 --output-dir data/maze12
"""


def add_parser(commands: argparse._SubParsersAction) -> None:
    """Add the `maze` command."""
    parser = commands.add_parser(
        "maze",
        help="generate mazes with a long shortest path",
        description="Square mazes without a border: every cell is a wall or free at random, S and G uniform among "
        "the free cells, kept where the shortest path is long. The label is the shortest path that a "
        "breadth-first search trying down, left, right, up finds first, as in Maze-Hard.",
        epilog=EXAMPLES,
    )
    add_output(parser, train=1000, test=1000)
    parser.add_argument("--size", type=int, default=30, help="rows and columns (default 30)")
    parser.add_argument(
        "--wall-density",
        type=float,
        nargs="+",
        default=DENSITY,
        metavar="P",
        help="the share of walls; two numbers: drawn for each maze between them (default 0.2 0.5)",
    )
    parser.add_argument(
        "--min-path",
        type=int,
        metavar="N",
        help="fewest cells of the shortest path, both ends counted (default: 110 at size 30, in proportion to "
        "the cells elsewhere)",
    )
    parser.add_argument("--unique", action="store_true", help="only mazes with a single shortest path")
    parser.set_defaults(command=run)


def run(options: argparse.Namespace) -> None:
    """Generate and save."""
    counts = check_counts(options)
    puzzle = Maze(options.size)
    density = tuple(options.wall_density)
    if len(density) > 2 or not 0 <= density[0] <= density[-1] < 1:
        raise DatasetError(
            f"--wall-density {' '.join(map(str, density))}: give one share from 0 to below 1, or two that increase"
        )
    min_path = max(3, round(PATH_SHARE * puzzle.seq_len)) if options.min_path is None else options.min_path
    kind = Kind(options.size, density[0], density[-1], min_path, options.unique)
    splits = maze_splits(kind, counts, seed=options.seed, processes=options.processes)
    made_by = {"size": options.size, "wall_density": " ".join(map(str, density)), "min_path": min_path}
    if options.unique:
        made_by["unique"] = True
    lengths = {name: split.ratings for name, split in splits.items() if split.ratings is not None}
    facts = {
        "rating": "cells of the shortest path, both ends counted",
        "mean_rating": {name: round(float(values.mean()), 2) for name, values in lengths.items()},
    }
    save(options, puzzle, splits, "maze", made_by, facts)
