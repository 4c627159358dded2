"""`python -m datasets_gen verify`: every rule of the layout and of the puzzle."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path

import numpy as np

from datasets_gen.arguments import add_command, add_directory
from datasets_gen.layout import (
    DatasetError,
    Metadata,
    Split,
    check_alike,
    parts,
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
        _check_rules(puzzle, directory / name, metadata, split)
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
    ratings = np.zeros(0) if split.ratings is None else split.ratings
    for rows in parts(len(ratings), ratings):
        if ((ratings[rows] < 0) | np.isinf(ratings[rows])).any():  # NaN: not rated
            raise DatasetError(f"{where}: a rating is negative or infinite")
    return (
        f"{name}: layout of {len(split.inputs):,} examples, {puzzles:,} puzzles, "
        f"{len(split.group_indices) - 1:,} groups: shapes, indices, tokens 0..{metadata.vocab_size - 1}"
    )


def _check_rules(puzzle: Puzzle, where: Path, metadata: Metadata, split: Split) -> None:
    faulty, fault, misrated = 0, "", ""
    rated = split.ratings if split.ratings is not None and len(split.ratings) == len(split.inputs) else None
    for start, part in split.parts():
        some = unscored_as_pad(part)
        bad = np.flatnonzero(~puzzle.valid(some.inputs, some.labels, some.relations))
        if len(bad) and not faulty:
            broken = puzzle.fault(some.inputs[bad[0]], some.labels[bad[0]], some.relations_of(bad[0]))
            assert broken is not None, "valid and fault disagree"
            fault = f"example {start + bad[0]}: {broken}"
        faulty += len(bad)
        if rated is None or faulty or misrated:
            continue
        ratings, stated = puzzle.ratings(some.inputs, some.labels), rated[start : start + len(some.inputs)]
        if ratings is not None and (wrong := (ratings != stated) & ~np.isnan(stated)).any():
            first = int(wrong.argmax())
            misrated = f"puzzle {start + first} is rated {stated[first]:g}, it has {ratings[first]}"
    if faulty:
        own = "" if "name" in metadata.task else "; if it is another puzzle, name its task in dataset.json"
        raise DatasetError(f"{where}: {fault} ({faulty} faulty examples{own})")
    if misrated:
        raise DatasetError(f"{where}: {misrated} {puzzle.rating_name}")
    if isinstance(puzzle, Sudoku | Maze):
        _check_whole(where, metadata, split)


def _check_whole(where: Path, metadata: Metadata, split: Split) -> None:
    """Check a set whose cells all count and whose puzzles have no names: all cells scored, no question twice.

    Questions are compared where their hashes are equal, so that memory holds 16 bytes of each.
    """
    for rows in parts(len(split.labels), split.labels):
        unscored = np.argwhere(split.labels[rows] == metadata.ignore_label_id)
        if len(unscored):
            raise DatasetError(
                f"{where}: ignore_label_id {metadata.ignore_label_id} leaves cell {unscored[0][1]} of example "
                f"{rows.start + unscored[0][0]} unscored"
            )
    if (split.puzzle_identifiers != metadata.blank_identifier_id).any():
        raise DatasetError(f"{where}: a puzzle has an identifier of its own, only the blank one is expected")
    hashes = _hashes(split.inputs)
    ordered = np.sort(hashes)
    repeated = ordered[1:][ordered[1:] == ordered[:-1]]
    del ordered
    seen: dict[bytes, int] = {}
    for index in np.flatnonzero(np.isin(hashes, repeated)).tolist():
        twin = seen.setdefault(split.inputs[index].tobytes(), index)
        if _group_of(split, twin) != _group_of(split, index):
            raise DatasetError(f"{where}: examples {twin} and {index} ask the same question in two groups")


def _group_of(split: Split, example: int) -> int:
    puzzle = _owner(split.puzzle_indices, example)
    return _owner(split.group_indices, puzzle)


def _owner(indices: np.ndarray, member: int) -> int:
    return int(np.searchsorted(indices, indices.dtype.type(member), side="right")) - 1


def _check_leaks(puzzle: Puzzle, splits: dict[str, Split]) -> list[str]:
    """No puzzle in two splits."""
    seen: dict[str, np.ndarray] = {}
    for name, split in splits.items() if len(splits) > 1 else ():
        own = _keys(puzzle, split)
        found = np.zeros(len(own), bool)
        for others in seen.values():
            found |= _among(own, others)
        if found.any():
            index = int(found.argmax())
            other = next(other for other, keys in seen.items() if (keys == own[index]).any())
            twin = int((seen[other] == own[index]).argmax())
            raise DatasetError(f"leak: {name} example {index} is {other} example {twin} under the puzzle's symmetries")
        seen[name] = own
    return [f"no puzzle is in two splits under the puzzle's symmetries: {', '.join(splits)}"] if len(splits) > 1 else []


def repeated(splits: Mapping[str, Split]) -> list[str]:
    """A line for each two splits that ask the same questions; symmetric copies, which take longer, are left out."""
    keys = {name: _questions(split) for name, split in splits.items()}
    found = {pair: int(_among(keys[pair[1]], keys[pair[0]]).sum()) for pair in combinations(splits, 2)}
    return [
        f"{count:,} of {len(keys[two]):,} questions of {two} are in {one}, too; accuracy on {two} counts them"
        for (one, two), count in found.items()
        if count
    ]


def _questions(split: Split) -> np.ndarray:
    """(N,) uint64, equal for equal questions: tokens, relations and the puzzle's identifier."""
    keys = _identified(split) + _hashes(split.inputs)
    return keys if split.relations is None else keys + _hashes(split.relations, seed=1)


def _identified(split: Split) -> np.ndarray:
    """(N,) uint64, equal for examples whose puzzles have one identifier."""
    owner = np.repeat(split.puzzle_identifiers, np.diff(split.puzzle_indices))
    return owner.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)


def _hashes(array: np.ndarray, seed: int = 0) -> np.ndarray:
    """(N,) uint64, equal for equal rows of an array (N, ...) of whole numbers."""
    width = math.prod(array.shape[1:])
    weights = 2 * np.random.Generator(np.random.PCG64(seed)).integers(0, 2**62, width, np.uint64) + 1
    hashes = np.empty(len(array), np.uint64)
    for rows in parts(len(array), array):
        hashes[rows] = array[rows].reshape(rows.stop - rows.start, width).astype(np.uint64) @ weights
    return hashes


def _keys(puzzle: Puzzle, split: Split) -> np.ndarray:
    """(N,) uint64, equal where one puzzle would be in two splits.

    Where the identifier tells the answer, a leak is one under the same identifier: published ARC has two tasks that
    share a pair, and test pairs that are turned demonstrations of their task (f3e62deb).
    """
    keys = np.empty(len(split.inputs), np.uint64)
    for start, part in split.parts():
        found = puzzle.signatures(part.inputs, part.labels, part.relations)
        keys[start : start + len(found)] = found
    if not puzzle.judges:
        keys += _identified(split)
    return keys


def _among(values: np.ndarray, others: np.ndarray) -> np.ndarray:
    """(N,) bool: which values (N,) are among others; it needs memory for the shorter of the two alone."""
    short, long = sorted((values, others), key=len)
    if not len(short):
        return np.zeros(len(values), bool)
    short = np.sort(short)
    common = []
    for rows in parts(len(long)):
        place = np.minimum(np.searchsorted(short, long[rows]), len(short) - 1)
        common.append(long[rows][short[place] == long[rows]])
    return np.isin(values, np.concatenate(common))
