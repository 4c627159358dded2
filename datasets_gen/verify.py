"""`python -m datasets_gen verify`: every rule of the layout and of the puzzle."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from datasets_gen.arc import Arc
from datasets_gen.arc.augment import Augmentation
from datasets_gen.layout import DatasetError, Metadata, Split, read_identifiers, read_split, splits_of
from datasets_gen.maze import Maze
from datasets_gen.puzzles import Puzzle, puzzle_of
from datasets_gen.sudoku import Sudoku

SHARED = (
    *("vocab_size", "seq_len", "pad_id", "ignore_label_id", "blank_identifier_id", "num_puzzle_identifiers"),
    *("task", "structure"),
)


def add_parser(commands: argparse._SubParsersAction) -> None:
    """Add the `verify` command."""
    parser = commands.add_parser(
        "verify",
        help="check a set: layout, rules, solutions, leaks between splits",
        description="Checks every rule of the layout and of the puzzle. Exit code 0 and what was checked, "
        "or 1 and the first fault.",
        epilog="example:\n  python -m datasets_gen verify data/sudoku",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("directory", type=Path, metavar="DIR", help="the set's folder")
    parser.set_defaults(command=run)


def run(options: argparse.Namespace) -> None:
    """Print what was checked, or raise the first fault."""
    for line in checked(options.directory):
        print(line)
    print(f"{options.directory}: no fault found")


def checked(directory: Path) -> list[str]:
    """What was checked, a line each.

    Raises:
        DatasetError: the first fault, with the split, the example and the broken rule.
    """
    names = splits_of(directory)
    if not names:
        read_split(directory, "train")  # says what is missing
    for path in sorted(directory.glob("*/*__inputs.npy")):
        if path.parent.name not in names:
            raise DatasetError(f"{path.parent} holds arrays but no dataset.json; regenerate or re-import the set")
    identifiers = read_identifiers(directory)
    splits = {name: read_split(directory, name) for name in names}
    lines = [_layout(directory, name, identifiers, *splits[name]) for name in names]
    first = splits[names[0]][0]
    for name, (metadata, _) in splits.items():
        for field in SHARED:
            if getattr(metadata, field) != getattr(first, field):
                raise DatasetError(
                    f"{directory / name}: {field} is {getattr(metadata, field)}, but "
                    f"{getattr(first, field)} in {names[0]}"
                )
    try:
        puzzle = puzzle_of(first)
    except DatasetError as error:
        if first.task:
            raise
        return [*lines, f"rules not checked: {error}"]
    for name, (metadata, split) in splits.items():
        _check_rules(puzzle, directory / name, metadata, split)
        lines.append(f"{name}: {puzzle.rules}")
    return lines + _check_leaks(puzzle, {name: split for name, (_, split) in splits.items()}, identifiers)


def _layout(directory: Path, name: str, identifiers: list[str], metadata: Metadata, split: Split) -> str:
    """Check what reading did not."""
    where = directory / name
    if len(identifiers) != metadata.num_puzzle_identifiers or len(set(identifiers)) != len(identifiers):
        raise DatasetError(
            f"{directory / 'identifiers.json'} names {len(set(identifiers))} different identifiers, "
            f"{name}/dataset.json says {metadata.num_puzzle_identifiers}"
        )
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
    if split.ratings is not None and not (np.isfinite(split.ratings) & (split.ratings >= 0)).all():
        raise DatasetError(f"{where}: a rating is negative or no number")
    return (
        f"{name}: layout of {len(split.inputs):,} examples, {puzzles:,} puzzles, "
        f"{len(split.group_indices) - 1:,} groups: shapes, indices, tokens 0..{metadata.vocab_size - 1}"
    )


def _check_rules(puzzle: Puzzle, where: Path, metadata: Metadata, split: Split) -> None:
    if (metadata.seq_len, metadata.vocab_size) != (puzzle.seq_len, puzzle.vocab_size):
        raise DatasetError(
            f"{where}: {metadata.seq_len} cells and {metadata.vocab_size} tokens, but {puzzle.task} has "
            f"{puzzle.seq_len} and {puzzle.vocab_size}"
        )
    bad = np.flatnonzero(~puzzle.valid(split.inputs, split.labels))
    if len(bad):
        fault = puzzle.fault(split.inputs[bad[0]], split.labels[bad[0]])
        assert fault is not None, "valid and fault disagree"
        raise DatasetError(f"{where}: example {bad[0]}: {fault} ({len(bad)} faulty examples)")
    ratings = puzzle.ratings(split.inputs, split.labels)
    if ratings is not None and split.ratings is not None and len(ratings) == len(split.ratings):
        wrong = np.flatnonzero(ratings != split.ratings)
        if len(wrong):
            raise DatasetError(
                f"{where}: puzzle {wrong[0]} is rated {split.ratings[wrong[0]]:g}, it has {ratings[wrong[0]]} "
                f"{puzzle.rating_name}"
            )
    if isinstance(puzzle, Sudoku | Maze):
        _check_whole(where, metadata, split)


def _check_whole(where: Path, metadata: Metadata, split: Split) -> None:
    """What holds where every cell counts and no puzzle has a name: all cells scored, no question twice."""
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


def _check_leaks(puzzle: Puzzle, splits: dict[str, Split], identifiers: list[str]) -> list[str]:
    """No puzzle in two splits. Two tasks of ARC share a pair as published: there, only within a task."""
    tasks = [Augmentation.of(name)[0] for name in identifiers] if isinstance(puzzle, Arc) else []
    seen: dict[tuple[str, int], tuple[str, int]] = {}
    for name, split in splits.items():
        own: dict[tuple[str, int], tuple[str, int]] = {}
        owner = np.repeat(split.puzzle_identifiers, np.diff(split.puzzle_indices))
        for index, signature in enumerate(puzzle.signatures(split.inputs, split.labels).tolist()):
            key = (tasks[owner[index]] if tasks else "", signature)
            if key in seen:
                other, twin = seen[key]
                raise DatasetError(
                    f"leak: {name} example {index} is {other} example {twin} under the puzzle's symmetries"
                )
            own.setdefault(key, (name, index))
        seen |= own
    return [f"no puzzle is in two splits under the puzzle's symmetries: {', '.join(splits)}"] if len(splits) > 1 else []
