"""`python -m datasets_gen verify`: every rule of the layout and of the puzzle."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from datasets_gen.arc import Arc
from datasets_gen.arc.augment import Augmentation
from datasets_gen.layout import DatasetError, Metadata, Split, read_identifiers, read_split, splits_of
from datasets_gen.puzzles import Puzzle, puzzle_of


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
    identifiers = read_identifiers(directory)
    splits = {name: read_split(directory, name) for name in names}
    lines = []
    for name, (metadata, split) in splits.items():
        if len(identifiers) != metadata.num_puzzle_identifiers:
            raise DatasetError(
                f"{directory / 'identifiers.json'} names {len(identifiers)} identifiers, "
                f"{name}/dataset.json says {metadata.num_puzzle_identifiers}"
            )
        lines.append(
            f"{name}: layout of {len(split.inputs):,} examples, {len(split.puzzle_indices) - 1:,} puzzles, "
            f"{len(split.group_indices) - 1:,} groups: shapes, indices, tokens 0..{metadata.vocab_size - 1}"
        )
    first = next(iter(splits.values()))[0]
    for name, (metadata, _) in splits.items():
        for field in ("vocab_size", "seq_len", "pad_id", "ignore_label_id", "task"):
            if getattr(metadata, field) != getattr(first, field):
                raise DatasetError(
                    f"{directory / name}: {field} is {getattr(metadata, field)}, but "
                    f"{getattr(first, field)} in {names[0]}"
                )
    puzzle = puzzle_of(first)
    for name, (metadata, split) in splits.items():
        _check_rules(puzzle, f"{directory / name}", metadata, split)
        lines.append(f"{name}: every question has one solution and every label is it")
    lines += _check_leaks(puzzle, {name: split for name, (_, split) in splits.items()}, identifiers)
    return lines


def _check_rules(puzzle: Puzzle, where: str, metadata: Metadata, split: Split) -> None:
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
