"""The command `export`: writes a split in the CSV format of Sudoku-Extreme and Maze-Hard."""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import numpy as np

from datasets_gen.arguments import add_command
from datasets_gen.commands import COMMANDS
from datasets_gen.importers.tables import COLUMNS
from datasets_gen.layout import DatasetError, Metadata, Split, read_split, splits_of
from datasets_gen.maze import Maze
from datasets_gen.puzzles import puzzle_of
from datasets_gen.scratch import published
from datasets_gen.sudoku import Sudoku


def add_parser(commands: argparse._SubParsersAction) -> None:
    """Add the command `export`."""
    description = "Writes Sudoku or mazes as CSV: source, question, answer, rating."
    epilog = "example:\n  python -m datasets_gen export data/sudoku --split test --output test.csv"
    parser = add_command(commands, "export", run_export, "Write a split as the published CSV", description, epilog)
    parser.add_argument("directory", type=Path, metavar="DIR", help="the set's folder")
    parser.add_argument("--split", help="train, validation or test (default: the first of the set)")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE", help="a file that does not exist yet")


def run_export(options: argparse.Namespace) -> None:
    """Write the CSV of a set of Sudoku or mazes."""
    name = options.split or next(iter(splits_of(options.directory)), "train")
    metadata, split = read_split(options.directory, name)
    puzzle = puzzle_of(metadata)
    if not isinstance(puzzle, Sudoku | Maze):
        raise DatasetError(f"{options.directory}: sets of {puzzle.task['name']} have no CSV; Sudoku and mazes have")
    write_table(options.output, puzzle, metadata, split, name)
    print(f"{options.output}: {len(split.inputs):,} puzzles of {options.directory}, split {name}")


def write_table(path: Path, puzzle: Sudoku | Maze, metadata: Metadata, split: Split, name: str) -> None:
    """Write the split `name` as the published CSV, to a file that does not exist yet."""
    if split.inputs.min(initial=1) < 1 or split.labels.min(initial=1) < 1:
        raise DatasetError(f"split {name}: token 0 or -100 is not a cell of a {puzzle.name}")
    styles = metadata.provenance.get("styles")
    style = styles.get(name, {}) if isinstance(styles, dict) else {}
    glyphs = np.array(list(puzzle.characters))
    glyphs[1] = style.get("blank", glyphs[1])
    owner = np.repeat(np.arange(len(split.puzzle_indices) - 1), np.diff(split.puzzle_indices))
    if path.exists():
        raise DatasetError(f"{path} is there already; type another --output, or remove it")
    with published(path) as part, part.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator=style.get("line_end", "\n"))
        writer.writerow(COLUMNS)
        for puzzle_index, *boards in zip(owner, split.inputs, split.labels, strict=True):
            source = "" if split.sources is None else metadata.sources[split.sources[puzzle_index]]
            rating = "" if split.ratings is None else _written(split.ratings[puzzle_index])
            writer.writerow([source, *("".join(glyphs[tokens]) for tokens in boards), rating])


def _written(rating: np.generic) -> str:
    """Format a rating so that `_rating` can parse it."""
    return "" if np.isnan(rating) else repr(rating.item()).removesuffix(".0")


COMMANDS.append(add_parser)
