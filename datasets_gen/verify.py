"""`python -m datasets_gen verify`: checks all rules of the layout and of the puzzle."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path

import numpy as np

from datasets_gen.arguments import add_command
from datasets_gen.family import row_keys
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
from datasets_gen.puzzles import Puzzle, UnknownPuzzle, puzzle_of

PAGE = """Check a set: layout, rules, solutions, leaks between splits.

Checks every rule of the layout and of the puzzle. Prints what was checked and exits with 0, or prints the first fault
and exits with 1. If no family describes the puzzle, it checks only the layout.

  python -m datasets_gen verify data/sudoku
"""


def add_parser(commands: argparse._SubParsersAction) -> None:
    """Add the `verify` command."""
    parser = add_command(commands, "verify", run, PAGE)
    parser.add_argument("directory", type=Path, metavar="DIR", help="the set's folder")


def run(options: argparse.Namespace) -> None:
    """Print the checks that passed; remarks go to the error stream."""
    directory: Path = options.directory
    names = splits_of(directory) or ["train"]  # loading it raises an error with the missing file
    for path in sorted(directory.glob("*/*__inputs.npy")):
        if path.parent.name not in names:
            fault = "no dataset.json, or a name with other characters than letters, digits and . _ + -"
            raise DatasetError(f"{path.parent} has arrays, but {fault}; regenerate or re-import the set")
    splits = {name: read_split(directory, name) for name in names}
    for name, pair in splits.items():
        print(_layout(directory, name, *pair))
    first = splits[names[0]][0]
    check_alike(directory, {name: metadata for name, (metadata, _) in splits.items()})
    read_identifiers(directory, first)
    try:
        puzzle = puzzle_of(first)
    except UnknownPuzzle as unknown:
        print(f"warning: only the layout was checked: {unknown}", file=sys.stderr)
    else:
        for name, (metadata, split) in splits.items():
            _check_rules(puzzle, directory / name, metadata, split)
            print(f"{name}: {puzzle.rules}")
        _check_leaks(puzzle, {name: split for name, (_, split) in splits.items()})
        if len(splits) > 1:
            print(f"no puzzle is in two splits: {', '.join(splits)}")
            for line in puzzle.notes({name: split.labels for name, (_, split) in splits.items()}):
                print(f"note: {line}", file=sys.stderr)
    print(f"{directory}: no fault found")


def _layout(directory: Path, name: str, metadata: Metadata, split: Split) -> str:
    """Make the checks that loading the split did not make; returns the line to print."""
    where = directory / name
    if not 0 <= metadata.pad_id < metadata.vocab_size:
        raise DatasetError(f"{where}: pad_id {metadata.pad_id} is outside the vocabulary")
    if not 0 <= metadata.blank_identifier_id < metadata.num_puzzle_identifiers:
        raise DatasetError(f"{where}: blank_identifier_id {metadata.blank_identifier_id} is not an identifier's number")
    examples, puzzles = len(split.inputs), len(split.puzzle_indices) - 1
    if not np.isclose(metadata.mean_puzzle_examples, examples / max(puzzles, 1)):
        stated = metadata.mean_puzzle_examples
        raise DatasetError(f"{where}: mean_puzzle_examples is {stated}, but {puzzles} puzzles have {examples} examples")
    if split.ratings is not None and ((split.ratings < 0) | np.isinf(split.ratings)).any():  # NaN: not rated
        raise DatasetError(f"{where}: a rating is negative or infinite")
    unscored = unscored_examples(metadata, split)
    if unscored and unscored == examples:
        raise DatasetError(f"{where}: no cell of any example is scored, so training and accuracy have no data")
    if unscored:
        print(f"warning: {where}: {unscored} of {examples} examples have no scored cell", file=sys.stderr)
    return (
        f"{name}: layout of {examples:,} examples, {puzzles:,} puzzles, {len(split.group_indices) - 1:,} groups: "
        f"shapes, indices, tokens 0..{metadata.vocab_size - 1}"
    )


def _check_rules(puzzle: Puzzle, where: Path, metadata: Metadata, split: Split) -> None:
    """Raise DatasetError if an answer is wrong, or two groups ask one question."""
    for start, part in split.parts():
        some = unscored_as_pad(part)
        bad = np.flatnonzero(~puzzle.valid(some.inputs, some.labels, some.relations))
        if len(bad):
            broken = puzzle.fault(some.inputs[bad[0]], some.labels[bad[0]], some.relations_of(bad[0]))
            hint = "" if "name" in metadata.task else " (if it is another puzzle, name its task in dataset.json)"
            raise DatasetError(f"{where}: example {start + bad[0]}: {broken}{hint}")
    keys = _questions(split)
    group = np.repeat(np.arange(len(split.group_indices) - 1), np.diff(split.group_indices))
    group = np.repeat(group, np.diff(split.puzzle_indices))  # (N,)
    order = keys.argsort(kind="stable")
    twins = np.flatnonzero((np.diff(keys[order]) == 0) & (np.diff(group[order]) != 0))
    if len(twins):
        one, other = order[twins[0]], order[twins[0] + 1]
        raise DatasetError(f"{where}: examples {one} and {other} ask the same question in two groups")


def _check_leaks(puzzle: Puzzle, splits: Mapping[str, Split]) -> None:
    """Raise DatasetError if a puzzle is in two splits."""
    keys = {name: _keys(puzzle, split) for name, split in splits.items()}
    for one, two in combinations(splits, 2):
        leaked = np.isin(keys[two], keys[one])
        if leaked.any():
            index = int(leaked.argmax())
            twin = int((keys[one] == keys[two][index]).argmax())
            raise DatasetError(f"leak: {two} example {index} is {one} example {twin} under the puzzle's symmetries")


def _keys(puzzle: Puzzle, split: Split) -> np.ndarray:
    """Return keys (N,) uint64: a key that occurs in two splits is a leak.

    If the identifier determines the answer, the key depends on it: published ARC has two tasks that share a pair, and
    test pairs that are rotated demonstrations of their task (f3e62deb).
    """
    signatures = [puzzle.signatures(part.inputs, part.labels, part.relations) for _, part in split.parts()]
    keys = np.concatenate([np.zeros(0, np.uint64), *signatures])
    return keys if puzzle.has_rules else keys + _identified(split)


def repeated(splits: Mapping[str, Split]) -> list[str]:
    """Return a line for each two splits with equal questions; symmetric copies, which take longer, are not searched."""
    keys = {name: _questions(split) for name, split in splits.items()}
    counts = {(one, two): int(np.isin(keys[two], keys[one]).sum()) for one, two in combinations(splits, 2)}
    return [
        f"{count:,} of {len(keys[two]):,} questions of {two} are also in {one}; accuracy on {two} counts them"
        for (one, two), count in counts.items()
        if count
    ]


def _questions(split: Split) -> np.ndarray:
    """Return keys (N,) uint64 of the questions: tokens, relations and the puzzle's identifier."""
    keys = _identified(split) + row_keys(split.inputs)
    return keys if split.relations is None else keys + row_keys(split.relations)


def _identified(split: Split) -> np.ndarray:
    """Return keys (N,) uint64 of the examples' puzzle identifiers."""
    owner = np.repeat(split.puzzle_identifiers, np.diff(split.puzzle_indices))
    return owner.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
