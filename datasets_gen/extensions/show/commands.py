"""The command `show`."""

from __future__ import annotations

import argparse
from itertools import zip_longest
from pathlib import Path

import numpy as np

from datasets_gen.arguments import add_command
from datasets_gen.commands import COMMANDS
from datasets_gen.layout import DatasetError, Metadata, Split, read_split, splits_of, unscored_as_pad
from datasets_gen.puzzles import Puzzle, puzzle_of
from datasets_gen.typed import typed

BARS, BAR = 10, 40  # of a histogram, and characters of the longest one

PAGE = """Draw a puzzle with its answer, and summarise its set.

  python -m datasets_gen show data/sudoku --split test --index 3
  python -m datasets_gen show data/sudoku --question > puzzle.txt    a puzzle for `reason solve`
  python -m datasets_gen show data/maze --against data/maze-hard
"""


def add_parser(commands: argparse._SubParsersAction) -> None:
    """Add the `show` command."""
    add = add_command(commands, "show", run, PAGE).add_argument
    add("directory", type=Path, metavar="DIR", help="the set's folder")
    add("--split", help="train, validation or test (default: the first of the set)")
    add("--index", type=int, default=0, metavar="I", help="which example (default 0)")
    add("--question", action="store_true", help="print the question alone, as it is typed")
    help = "sets to compare the statistics with"
    add("--against", type=Path, nargs="+", default=[], metavar="OTHER", help=help)


def run(options: argparse.Namespace) -> None:
    """Print the drawing, then the statistics of every split or of `--split`, and the comparison with other sets."""
    names = splits_of(options.directory)
    name = options.split or next(iter(names), "train")
    metadata, split = read_split(options.directory, name)
    examples = len(split.inputs)
    if not 0 <= options.index < examples:
        raise DatasetError(f"--index {options.index}: split {name} has {examples} examples, counted from 0")
    puzzle, split = puzzle_of(metadata), unscored_as_pad(split)
    if options.question:
        print(puzzle.draw(split.inputs[options.index], None, split.relations_of(options.index)))
        return
    print(_drawing(puzzle, split, name, options.index))
    shown = [name] if options.split else list(names)
    places = [(other, options.directory, other) for other in (names if options.against else shown)]
    for against in options.against:
        its_names = splits_of(against) or ["train"]  # "train" says what is missing
        places += [(f"{against}/{other}", against, other) for other in its_names]
    statistics = {}
    for title, directory, other in places:
        its_metadata, its_split = read_split(directory, other)
        if (its_puzzle := puzzle_of(its_metadata)).task != puzzle.task:
            raise DatasetError(f"{directory}: {its_puzzle.task} is another puzzle than {puzzle.task}")
        statistics[title] = _statistics(puzzle, its_split)
        if title == other and other in shown:
            print("\n" + _summary(other, its_metadata, its_split, statistics[title]))
    if options.against:
        print("\n" + "\n".join(_comparison(statistics, name)))


def _comparison(statistics: dict[str, dict[str, np.ndarray]], name: str) -> list[str]:
    """Return lines with two-sample Kolmogorov-Smirnov tests of one split against all others, one per statistic."""
    from scipy.stats import ks_2samp  # the import takes a second

    lines = ["Kolmogorov-Smirnov tests, two samples: the distance D of the distributions, and the probability p"]
    chosen = statistics.pop(name)
    for title in chosen:
        for other, values in ((other, all_of[title]) for other, all_of in statistics.items() if title in all_of):
            test = ks_2samp(chosen[title], values)
            lines.append(
                f"  {title}: {name} (mean {chosen[title].mean():.4g}, n {len(chosen[title])}) against {other} "
                f"(mean {values.mean():.4g}, n {len(values)}): D {test.statistic:.3f}, p {test.pvalue:.2g}"
            )
    return lines


def _statistics(puzzle: Puzzle, split: Split) -> dict[str, np.ndarray]:
    """Return the statistics of a split by name, (N,) or (P,), without empty ones, and the rating if it is another."""
    split = unscored_as_pad(split)
    statistics = puzzle.features(split.inputs, split.labels)
    if split.ratings is not None and puzzle.rating_name not in statistics:
        statistics = {f"rating ({puzzle.rating_name})": split.ratings[~np.isnan(split.ratings)]} | statistics
    return {name: values for name, values in statistics.items() if len(values)}


def _drawing(puzzle: Puzzle, split: Split, name: str, index: int) -> str:
    """Draw the question, with its answer to the right."""
    question, answer = split.inputs[index], split.labels[index]
    title = f"{name} {index}"
    if split.ratings is not None:
        owner = int(np.searchsorted(split.puzzle_indices, index, side="right")) - 1
        rating = split.ratings[owner]
        title += ", not rated" if np.isnan(rating) else f", rating {rating:g} ({puzzle.rating_name})"
    relations = split.relations_of(index)
    left = puzzle.draw(question, None, relations).split("\n")
    right = puzzle.draw(answer, question, relations).split("\n")
    width = max(map(len, left)) + 6
    return "\n".join([title, "", *(f"{a:<{width}}{b}" for a, b in zip_longest(left, right, fillvalue=""))])


def _summary(name: str, metadata: Metadata, split: Split, statistics: dict[str, np.ndarray]) -> str:
    lines = [
        f"{name}: {len(split.inputs):,} examples of {metadata.seq_len} cells, {metadata.vocab_size} tokens; "
        f"{len(split.puzzle_indices) - 1:,} puzzles in {len(split.group_indices) - 1:,} groups; "
        f"task {metadata.task.get('name', 'not stated')}"
    ]
    for title, values in statistics.items():
        lines += ["", *_histogram(title, values)]
    if "command" in metadata.provenance:
        lines += ["", f"made by: {typed(str(metadata.provenance['command']))}"]
    return "\n".join(lines)


def _histogram(title: str, values: np.ndarray) -> list[str]:
    """Draw a histogram in text; a bar of whole numbers includes both its ends."""
    low, high = values.min(), values.max()
    lines = [f"{title}: mean {values.mean():.4g}, from {low:g} to {high:g}"]
    if low == high:
        return lines
    whole = np.issubdtype(values.dtype, np.integer)
    edges = np.linspace(float(low), float(high) + whole, BARS + 1)
    edges = np.unique(np.rint(edges)) if whole else edges
    counts = np.histogram(values, edges)[0]
    for count, start, end in zip(counts, edges[:-1], edges[1:] - whole, strict=True):
        label = f"{start:g}" if whole and end == start else f"{start:.4g} to {end:.4g}"
        lines.append(f"  {label:>14} {count:7d} {'#' * round(BAR * count / counts.max())}")
    return lines


COMMANDS.append(add_parser)
