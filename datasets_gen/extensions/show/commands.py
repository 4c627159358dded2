"""The command `show`."""

from __future__ import annotations

import argparse
from itertools import cycle, islice
from pathlib import Path

import numpy as np

from datasets_gen.arguments import add_command
from datasets_gen.commands import COMMANDS
from datasets_gen.layout import DatasetError, Metadata, Split, read_split, splits_of, unscored_as_pad
from datasets_gen.pictures import board_picture
from datasets_gen.puzzles import Puzzle, puzzle_of
from datasets_gen.typed import typed

BAR = 40  # characters of the longest bar
SERIES = ["#0a5fb0", "#b34a00", "#00382c", "#a93f8c", "#6e5600", "#33257a"]  # as reason/report/palette.py


PAGE = """Draw a puzzle with its answer, and summarise its set.

  python -m datasets_gen show data/sudoku --split test --index 3
  python -m datasets_gen show data/maze --against data/maze-hard --png maze.png
"""


def add_parser(commands: argparse._SubParsersAction) -> None:
    """Add the `show` command."""
    add = add_command(commands, "show", run, PAGE).add_argument
    add("directory", type=Path, metavar="DIR", help="the set's folder")
    add("--split", help="train, validation or test (default: the first of the set)")
    add("--index", type=int, default=0, metavar="I", help="which example (default 0)")
    help = "sets to compare the statistics with"
    add("--against", type=Path, nargs="+", default=[], metavar="OTHER", help=help)
    add("--png", type=Path, metavar="FILE", help="also draw the puzzle and the histograms")


def run(options: argparse.Namespace) -> None:
    """Print the drawing, then the statistics of every split; write the picture where one is wanted."""
    names = splits_of(options.directory)
    name = options.split or next(iter(names), "train")
    metadata, split = read_split(options.directory, name)
    examples = len(split.inputs)
    if not 0 <= options.index < examples:
        raise DatasetError(f"--index {options.index}: split {name} holds {examples} examples, counted from 0")
    puzzle, split = puzzle_of(metadata), unscored_as_pad(split)
    print(_drawing(puzzle, split, name, options.index))
    places = [(other, options.directory, other) for other in names]
    places += [(f"{against}/{other}", against, other) for against in options.against for other in splits_of(against)]
    found = {}
    for title, directory, other in places:
        its_metadata, its_split = read_split(directory, other)
        if (its_puzzle := puzzle_of(its_metadata)) != puzzle:
            raise DatasetError(f"{directory}: {its_puzzle.task} is another puzzle than {puzzle.task}")
        found[title] = _statistics(puzzle, its_split)
        if title == other:
            print("\n" + _summary(other, its_metadata, its_split, found[title]))
    common = set.intersection(*(set(values) for values in found.values()))
    columns = {key: {other: found[other][key] for other in found} for key in found[name] if key in common}
    if options.against:
        print("\n" + "\n".join(_comparison(columns, name)))
    if options.png:
        _picture(options.png, puzzle, split, options.index, columns)
        print(f"\n{options.png}")


def _comparison(columns: dict[str, dict[str, np.ndarray]], name: str) -> list[str]:
    """Two-sample Kolmogorov-Smirnov tests of one split against all others."""
    from scipy.stats import ks_2samp  # takes a second to come

    lines = ["Kolmogorov-Smirnov tests, two samples: the distance D of the distributions, and the probability p"]
    for title, values in columns.items():
        for other in values:
            if other != name:
                test = ks_2samp(values[name], values[other])
                lines.append(
                    f"  {title}: {name} (mean {values[name].mean():.4g}, n {len(values[name])}) against {other} "
                    f"(mean {values[other].mean():.4g}, n {len(values[other])}): D {test.statistic:.3f}, "
                    f"p {test.pvalue:.2g}"
                )
    return lines


def _statistics(puzzle: Puzzle, split: Split) -> dict[str, np.ndarray]:
    """Values (N,) or (P,) by name, without empty ones; the rating where it is not a feature already."""
    split = unscored_as_pad(split)
    found = puzzle.features(split.inputs, split.labels)
    if split.ratings is not None and puzzle.rating_name not in found:
        found = {f"rating ({puzzle.rating_name})": split.ratings[~np.isnan(split.ratings)]} | found
    return {name: values for name, values in found.items() if len(values)}


def _drawing(puzzle: Puzzle, split: Split, name: str, index: int) -> str:
    """The question, and its answer on the right."""
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
    return "\n".join([title, "", *(f"{a:<{width}}{b}" for a, b in zip(left, right, strict=True))])


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


def _histogram(title: str, values: np.ndarray, bins: int = 10) -> list[str]:
    """Counts as bars."""
    lines = [f"{title}: mean {values.mean():.4g}, from {values.min():g} to {values.max():g}"]
    if values.min() == values.max():
        return lines
    whole, edges = _edges(values, bins)
    counts = np.histogram(values, edges)[0]
    for count, start, end in zip(counts, edges[:-1], edges[1:] - whole, strict=True):
        label = f"{start:g}" if whole and end == start else f"{start:.4g} to {end:.4g}"
        lines.append(f"  {label:>14} {count:7d} {'#' * round(BAR * count / counts.max())}")
    return lines


def _edges(values: np.ndarray, bins: int) -> tuple[bool, np.ndarray]:
    """Whether values are whole, and the edges of bins, which hold whole numbers from their start to their end - 1."""
    whole, low, high = np.issubdtype(values.dtype, np.integer), float(values.min()), float(values.max())
    edges = np.linspace(low, high + (whole or low == high), bins + 1)
    return whole, np.unique(np.rint(edges)) if whole else edges


def _picture(
    path: Path, puzzle: Puzzle, split: Split, index: int, statistics: dict[str, dict[str, np.ndarray]]
) -> None:
    """Question and answer of one example, and for every statistic {name: {split: (N,)}} a histogram of shares."""
    from matplotlib.figure import Figure  # takes a second to come
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    panels = 2 + len(statistics)
    across = min(4, panels)
    down = -(-panels // across)
    figure = Figure(figsize=(4 * across, 4 * down), layout="constrained")
    axes = [figure.add_subplot(down, across, panel) for panel in range(1, panels + 1)]
    question = split.inputs[index]
    for axis, title, tokens in zip(axes, ("question", "answer"), (question, split.labels[index]), strict=False):
        axis.imshow(np.asarray(board_picture(puzzle, tokens, question, pixels=960)))
        axis.set_title(f"{title} {index}")
        axis.axis("off")
    for axis, (name, values) in zip(axes[2:], statistics.items(), strict=True):
        whole, edges = _edges(np.concatenate([*values.values()]), bins=12)
        shares = [np.full(len(one), 1 / len(one)) for one in values.values()]
        told = [f"{part}, n {len(one):,}" for part, one in values.items()]
        colours = [*islice(cycle(SERIES), len(values))]
        bins = (edges - whole / 2).tolist()  # a whole number stands below its bar
        axis.hist([*values.values()], bins, weights=shares, rwidth=0.9, label=told, color=colours)
        axis.set_title(name)
        axis.xaxis.set_major_locator(MaxNLocator(integer=whole, min_n_ticks=1))
        axis.yaxis.set_major_formatter(PercentFormatter(1))
        axis.spines[["top", "right"]].set_visible(False)
    figure.legend(*axes[-1].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    try:
        figure.savefig(path, dpi=110)
    except ValueError as error:  # no kind of picture that matplotlib writes
        raise DatasetError(f"--png {path}: {error}") from None


COMMANDS.append(add_parser)
