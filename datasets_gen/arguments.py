"""Options that the commands share, their checks, and the writing of a generated set."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from datasets_gen.family import Puzzle
from datasets_gen.layout import SPLITS, DatasetError, Split, check_free, write_dataset
from datasets_gen.version import __version__

OUTPUT_OPTIONS: list[Callable[[argparse.ArgumentParser], None]] = []  # of extensions: each adds to every generator


def add_command(
    commands: argparse._SubParsersAction, name: str, run: Callable[[argparse.Namespace], None], *texts: str
) -> argparse.ArgumentParser:
    """Add a command that calls `run`. The first of `texts` is its description, the last ones are examples.

    `instead`: the text that a generator prints if it writes no set.
    """
    page = "\n\n".join(texts)
    summary = page.partition("\n")[0].rstrip(".")
    parser: argparse.ArgumentParser = commands.add_parser(name, help=summary.replace("%", "%%"), description=page)
    parser.set_defaults(command=run, generator=name, instead=None)
    return parser


def whole_number(text: str) -> int:
    """Parse a whole number from 0; argparse prints the error of any other text."""
    if not re.fullmatch(r"\d{1,18}", text):
        raise argparse.ArgumentTypeError(f"{text} is not a whole number from 0")
    return int(text)


def add_output(parser: argparse.ArgumentParser, *, train: int, test: int) -> None:
    """Add --train, --validation, --test, --seed, --processes, --output-dir and the options of extensions."""
    for name, default in (("train", train), ("validation", 0), ("test", test)):
        help = f"{name} puzzles (default {default})"
        parser.add_argument(f"--{name}", type=whole_number, default=default, metavar="N", help=help)
    help = "random seed, 0 or more (default 0)"
    parser.add_argument("--seed", type=whole_number, default=0, help=help)
    add_processes(parser)
    help = "a folder that does not exist yet"
    parser.add_argument("--output-dir", type=Path, required=True, metavar="DIR", help=help)
    for add in OUTPUT_OPTIONS:
        add(parser)


def add_processes(parser: argparse.ArgumentParser) -> None:
    """Add --processes."""
    help = "maximum number of processes (default: one per processor); the result does not depend on it"
    parser.add_argument("--processes", type=whole_number, metavar="N", help=help)


def check_counts(options: argparse.Namespace) -> dict[str, int]:
    """Return the number of puzzles by split. Raises DatasetError if all are 0, or the folder is in use."""
    counts = {name: getattr(options, name) for name in SPLITS}
    if not any(counts.values()):
        raise DatasetError("--train, --validation and --test are all 0: nothing to make")
    check_free(options.output_dir)
    return counts


def save(
    options: argparse.Namespace,
    puzzle: Puzzle,
    splits: Mapping[str, Split],
    made_by: Mapping[str, Any],
    facts: Mapping[str, Any],
    command: str | None = None,
) -> None:
    """Write the set with the command that reproduces it (by default the puzzle's name), and print its path."""
    if options.instead:
        print(options.instead)
        return
    made_by = {**{name: getattr(options, name) for name in SPLITS}, "seed": options.seed, **made_by}
    words = [f"--{name.replace('_', '-')}" + ("" if value is True else f" {value}") for name, value in made_by.items()]
    provenance = {
        "command": " ".join(["python -m datasets_gen", command or shlex.quote(puzzle.name), *words]),
        "generator": puzzle.name,
        "options": made_by,
        "version": __version__,
        **facts,
    }
    splits = {name: splits[name] for name in SPLITS if name in splits}
    write_dataset(options.output_dir, splits, **described(puzzle), provenance=provenance)
    made = ", ".join(f"{len(split.puzzle_indices) - 1:,} {name}" for name, split in splits.items())
    print(f"{options.output_dir}: {made} puzzles of {puzzle.seq_len} cells, {puzzle.vocab_size} tokens")


def described(puzzle: Puzzle) -> dict[str, Any]:
    """Return the arguments of `write_dataset` that follow from the puzzle."""
    return {"task": puzzle.task, "vocab_size": puzzle.vocab_size, "structure": puzzle.structure}
