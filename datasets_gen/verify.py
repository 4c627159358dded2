"""`python -m datasets_gen verify`: every rule of the layout and of the puzzle."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from datasets_gen.arc import Arc
from datasets_gen.arguments import add_command, add_directory
from datasets_gen.layout import (
    DatasetError,
    Metadata,
    Split,
    check_alike,
    read_identifiers,
    read_split,
    splits_of,
    unscored_as_pad,
    unscored_examples,
)
from datasets_gen.maze import Maze
from datasets_gen.puzzles import Puzzle, UnknownPuzzle, puzzle_of
from datasets_gen.sudoku import Sudoku


def add_parser(commands: argparse._SubParsersAction) -> None:
    """Add the `verify` command."""
    parser = add_command(
        commands,
        "verify",
        run,
        "check a set: layout, rules, solutions, leaks between splits",
        "Checks every rule of the layout and of the puzzle. Prints what was checked and exits with 0, "
        "or prints the first fault and exits with 1. Where no family describes the puzzle, it checks the layout alone.",
        "example:\n  python -m datasets_gen verify data/sudoku",
    )
    add_directory(parser)


def run(options: argparse.Namespace) -> None:
    """Print what was checked, or raise the first fault; what deserves a look goes to the error stream."""
    lines, warnings = checked(options.directory)
    for line in lines:
        print(line)
    for warning in warnings:
        print(f"warning: {warning}", file=sys.stderr)
    print(f"{options.directory}: no fault found")


def checked(directory: Path) -> tuple[list[str], list[str]]:
    """Check a set; returns a line for each check, and warnings.

    Raises:
        DatasetError: the first fault, with the split, the example and the broken rule.
    """
    names = splits_of(directory)
    if not names:
        read_split(directory, "train")  # says what is missing
    for path in sorted(directory.glob("*/*__inputs.npy")):
        if path.parent.name not in names:
            raise DatasetError(f"{path.parent} holds arrays but no dataset.json; regenerate or re-import the set")
    splits = {name: read_split(directory, name) for name in names}
    lines = [_layout(directory, name, *splits[name]) for name in names]
    first = splits[names[0]][0]
    check_alike(directory, {name: metadata for name, (metadata, _) in splits.items()})
    read_identifiers(directory, first)
    warnings = _unscored(directory, splits)
    try:
        puzzle = puzzle_of(first)
    except UnknownPuzzle as unknown:
        return lines, [*warnings, f"only the layout was checked: {unknown}"]
    for name, (metadata, split) in splits.items():
        _check_rules(puzzle, directory / name, metadata, unscored_as_pad(split))
        lines.append(f"{name}: {puzzle.rules}")
    return lines + _check_leaks(puzzle, {name: split for name, (_, split) in splits.items()}), warnings


def _unscored(directory: Path, splits: dict[str, tuple[Metadata, Split]]) -> list[str]:
    counts = {name: unscored_examples(directory, name, *pair) for name, pair in splits.items()}
    return [
        f"{directory / name}: {count} of {len(splits[name][1].labels)} examples have no scored cell"
        for name, count in counts.items()
        if count
    ]


def _layout(directory: Path, name: str, metadata: Metadata, split: Split) -> str:
    """Check what reading did not."""
    where = directory / name
    if not 0 <= metadata.pad_id < metadata.vocab_size:
        raise DatasetError(f"{where}: pad_id {metadata.pad_id} is outside the vocabulary")
    if not 0 <= metadata.blank_identifier_id < metadata.num_puzzle_identifiers:
        raise DatasetError(f"{where}: blank_identifier_id {metadata.blank_identifier_id} names no identifier")
    puzzles = len(split.puzzle_indices) - 1
    if not np.isclose(metadata.mean_puzzle_examples, len(split.inputs) / max(puzzles, 1)):
        raise DatasetError(
            f"{where}: mean_puzzle_examples is {metadata.mean_puzzle_examples}, the arrays hold {len(split.inputs)} "
            f"examples of {puzzles} puzzles"
        )
    if split.ratings is not None and ((split.ratings < 0) | np.isinf(split.ratings)).any():  # NaN: not rated
        raise DatasetError(f"{where}: a rating is negative or infinite")
    return (
        f"{name}: layout of {len(split.inputs):,} examples, {puzzles:,} puzzles, "
        f"{len(split.group_indices) - 1:,} groups: shapes, indices, tokens 0..{metadata.vocab_size - 1}"
    )


def _check_rules(puzzle: Puzzle, where: Path, metadata: Metadata, split: Split) -> None:
    bad = np.flatnonzero(~puzzle.valid(split.inputs, split.labels, split.relations))
    if len(bad):
        fault = puzzle.fault(split.inputs[bad[0]], split.labels[bad[0]], split.relations_of(bad[0]))
        assert fault is not None, "valid and fault disagree"
        own = "" if "name" in metadata.task else "; if it is another puzzle, name its task in dataset.json"
        raise DatasetError(f"{where}: example {bad[0]}: {fault} ({len(bad)} faulty examples{own})")
    ratings = puzzle.ratings(split.inputs, split.labels)
    if ratings is not None and split.ratings is not None and len(ratings) == len(split.ratings):
        wrong = np.flatnonzero((ratings != split.ratings) & ~np.isnan(split.ratings))
        if len(wrong):
            raise DatasetError(
                f"{where}: puzzle {wrong[0]} is rated {split.ratings[wrong[0]]:g}, it has {ratings[wrong[0]]} "
                f"{puzzle.rating_name}"
            )
    if isinstance(puzzle, Sudoku | Maze):
        _check_whole(where, metadata, split)


def _check_whole(where: Path, metadata: Metadata, split: Split) -> None:
    """Check a set whose cells all count and whose puzzles have no names: all cells scored, no question twice."""
    unscored = np.argwhere(split.labels == metadata.ignore_label_id)
    if len(unscored):
        raise DatasetError(
            f"{where}: ignore_label_id {metadata.ignore_label_id} leaves cell {unscored[0][1]} of example "
            f"{unscored[0][0]} unscored"
        )
    if (split.puzzle_identifiers != metadata.blank_identifier_id).any():
        raise DatasetError(f"{where}: a puzzle has an identifier of its own, only the blank one is expected")
    group = np.searchsorted(split.group_indices, np.arange(len(split.puzzle_identifiers)), side="right")
    owner = np.repeat(group, np.diff(split.puzzle_indices))
    seen: dict[bytes, int] = {}
    for index, question in enumerate(split.inputs):
        twin = seen.setdefault(question.tobytes(), index)
        if owner[twin] != owner[index]:
            raise DatasetError(f"{where}: examples {twin} and {index} ask the same question in two groups")


def _check_leaks(puzzle: Puzzle, splits: dict[str, Split]) -> list[str]:
    """No puzzle in two splits.

    Published ARC has two tasks that share a pair, and test pairs that are turned demonstrations of their task
    (f3e62deb): there a leak is one under the same identifier.
    """
    seen: dict[tuple[int, int], tuple[str, int]] = {}
    for name, split in splits.items():
        own: dict[tuple[int, int], tuple[str, int]] = {}
        owner = np.repeat(split.puzzle_identifiers, np.diff(split.puzzle_indices)).tolist()
        for index, signature in enumerate(puzzle.signatures(split.inputs, split.labels, split.relations).tolist()):
            key = (owner[index] if isinstance(puzzle, Arc) else 0, signature)
            if key in seen:
                other, twin = seen[key]
                raise DatasetError(
                    f"leak: {name} example {index} is {other} example {twin} under the puzzle's symmetries"
                )
            own.setdefault(key, (name, index))
        seen |= own
    return [f"no puzzle is in two splits under the puzzle's symmetries: {', '.join(splits)}"] if len(splits) > 1 else []
