"""`python -m datasets_gen import` and `export`: puzzle sets made elsewhere, and CSV files written from ours."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from datasets_gen.addition import Addition
from datasets_gen.arc import SIDE, Arc
from datasets_gen.arc.build import arc_splits
from datasets_gen.arc.tasks import Task, chosen_tasks, read_tasks, task_files
from datasets_gen.arguments import add_command, add_directory, add_output_dir, described
from datasets_gen.importers.suites import SUITES, read_suite, suite_split
from datasets_gen.importers.tables import read_sums, read_table, split_of_sums, write_table
from datasets_gen.layout import (
    SHARED,
    SPLITS,
    DatasetError,
    Metadata,
    Split,
    check_alike,
    check_free,
    read_identifiers,
    read_split,
    splits_of,
    unscored_examples,
    write_dataset,
)
from datasets_gen.maze import Maze
from datasets_gen.puzzles import UnknownPuzzle, puzzle_of, structure_of
from datasets_gen.sudoku import Sudoku
from datasets_gen.verify import repeated
from datasets_gen.version import __version__

HINTS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation"), "validation"),
    **dict.fromkeys(("test", "testing", "eval", "evaluation"), "test"),
}
WORD = re.compile("[A-Z]?[a-z]+|[A-Z]+")
EXAMPLES = """\
Nothing is downloaded. What to fetch, and how to import it:
  Sudoku-Extreme   data set sapientinc/sudoku-extreme, files train.csv and test.csv
                   python -m datasets_gen import sudoku-csv train.csv test.csv --output-dir data/sudoku-extreme
  Maze-Hard        data set sapientinc/maze-30x30-hard-1k, files train.csv and test.csv
                   python -m datasets_gen import maze-csv train.csv test.csv --output-dir data/maze-hard
  HRM, TRM         a folder that one of their dataset builders wrote
                   python -m datasets_gen import npy data/arc1concept-aug-1000 --output-dir data/arc1
  ARC-AGI-1, -2    the folders of their repositories, a file for each task
                   python -m datasets_gen import arc data/training data/evaluation --output-dir data/arc
                   or the challenges and solutions files of the combined (Kaggle) form, side by side
                   python -m datasets_gen import arc arc-agi_training_challenges.json \\
                       arc-agi_evaluation_challenges.json --augmentations 100 --output-dir data/arc
                   a few small tasks on a small board, for training and testing without a GPU:
                   python -m datasets_gen import arc arc-agi_training_challenges.json --split test \\
                       --tasks 3c9b0459,67a3c6ac --size 10 --augmentations 50 --output-dir data/arc-few
  STARS            repository njuyxw/STARS, file train_addition/data/test_4digit.jsonl
                   python -m datasets_gen import addition-jsonl test_4digit.jsonl --output-dir data/addition
  reasoning-gym    its entries as JSON, one a line: sudoku, mini_sudoku, futoshiki, n_queens
                   python -m datasets_gen import reasoning-gym futoshiki.jsonl --like data/futoshiki \\
                       --output-dir data/gym-futoshiki
  PPBench          data set bluecoconut/pencil-puzzle-bench, a file of puzzles: sudoku, lightup
                   python -m datasets_gen import ppbench golden_300.jsonl --tasks lightup --like data/light-up \\
                       --output-dir data/ppbench-lightup
A word of a file's name tells its split (train, training, val, valid, validation, test, testing, eval, evaluation), else
one of its folder's name; --split overrides both; without any the split is test. The command prints every split.
"""


def add_parser(commands: argparse._SubParsersAction) -> None:
    """Add the commands `import` and `export`."""
    description = "Reads puzzles made elsewhere from local files into the layout."
    parser = add_command(commands, "import", run_import, "read a published set into the layout", description, EXAMPLES)
    parser.add_argument("format", choices=FORMATS)
    parser.add_argument("sources", type=Path, nargs="+", metavar="SOURCE", help="local files; arc and npy: or folders")
    add_output_dir(parser)
    parser.add_argument("--split", choices=SPLITS, help="the split that all sources belong to (npy has its own splits)")
    parser.add_argument(
        "--augmentations",
        type=int,
        default=20,
        metavar="N",
        help="arc: copies of every task besides itself (20; papers: 1000)",
    )
    parser.add_argument("--tasks", metavar="ID,ID", help="arc: only these tasks; ppbench: only this kind")
    parser.add_argument(
        "--like", type=Path, metavar="DIR", help="reasoning-gym, ppbench: a set of the same puzzle, for its relations"
    )
    parser.add_argument(
        "--size", type=int, default=SIDE, metavar="N", help=f"arc: rows and columns of the board (default {SIDE})"
    )
    parser.add_argument("--seed", type=int, default=0, help="arc: of the augmentations (default 0)")

    description = "Writes Sudoku or mazes as CSV: source, question, answer, rating."
    epilog = "example:\n  python -m datasets_gen export data/sudoku --split test --output test.csv"
    parser = add_command(commands, "export", run_export, "write a split as the published CSV", description, epilog)
    add_directory(parser)
    parser.add_argument("--split", help="train, validation or test (default: the first of the set)")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE", help="a file that does not exist yet")


def run_import(options: argparse.Namespace) -> None:
    """Read, and save; nothing is written where a source is faulty."""
    check_free(options.output_dir)
    contents = FORMATS[options.format](options)
    provenance = {
        "command": " ".join(["python -m datasets_gen import", *_typed(options)]),
        "files": _names(options),
        "version": __version__,
    }
    contents["provenance"] = {**contents.get("provenance", {}), **provenance}
    for warning in repeated(contents["splits"]):
        print(f"warning: {warning}", file=sys.stderr)
    write_dataset(options.output_dir, **contents)
    made = ", ".join(f"{len(split.inputs):,} {name}" for name, split in contents["splits"].items())
    print(f"{options.output_dir}: {made} examples, {contents['vocab_size']} tokens")


def _typed(options: argparse.Namespace) -> list[str]:
    """The words of the command, its files by name alone, without the folder that it writes."""
    words = [options.format, *(shlex.quote(name) for name in _names(options))]
    given = {"--split": options.split, "--tasks": options.tasks, "--like": options.like and options.like.name}
    if options.format == "arc":
        given |= {"--augmentations": options.augmentations}
        given |= {"--size": options.size, "--seed": options.seed}
    return words + [
        word for name, value in given.items() if value is not None for word in (name, shlex.quote(str(value)))
    ]


def _names(options: argparse.Namespace) -> list[str]:
    return [os.fsencode(source.absolute().name).decode(errors="replace") for source in options.sources]


def _from_tables(options: argparse.Namespace) -> dict[str, Any]:
    name = options.format.removesuffix("-csv")
    tables = {split: read_table(source, name) for split, source in _by_split(options).items()}
    first = next(iter(tables.values()))
    sources = sorted({source for table in tables.values() for source in table.sources})
    splits = {}
    for key, table in tables.items():
        if table.puzzle != first.puzzle:
            raise DatasetError(
                f"the sources hold boards of {first.puzzle.size} and of {table.puzzle.size} rows; import them apart"
            )
        number = np.array([sources.index(source) for source in table.sources], np.int32)
        splits[key] = replace(table.split, sources=number[table.split.sources])
    return {
        "splits": splits,
        **described(first.puzzle),
        "sources": sources,
        "provenance": {"styles": {name: table.style for name, table in tables.items()}},
    }


def _from_sums(options: argparse.Namespace) -> dict[str, Any]:
    sums = {split: read_sums(source) for split, source in _by_split(options).items()}
    puzzle = Addition(max(len(str(n)) for rows in sums.values() for operands in rows for n in operands))
    splits = {name: split_of_sums(puzzle, rows) for name, rows in sums.items()}
    return {"splits": splits, **described(puzzle)}


def _from_suite(options: argparse.Namespace) -> dict[str, Any]:
    splits: dict[str, Split] = {}
    for name, source in _by_split(options).items():
        kind, found = read_suite(source, options.format, options.tasks)
        puzzle, splits[name] = suite_split(kind, found, options.like)
        if others := len(found) - len(splits[name].inputs):
            print(f"warning: {source}: {others} puzzles of another size are left out", file=sys.stderr)
    return {"splits": splits, **described(puzzle)}


def _from_arc(options: argparse.Namespace) -> dict[str, Any]:
    if options.split == "validation":
        raise DatasetError("--split validation: ARC has training and test tasks; give train or test")
    if options.seed < 0:
        raise DatasetError(f"--seed {options.seed} is negative; give a whole number from 0")
    puzzle = Arc(options.size)
    tasks: dict[str, dict[str, Task]] = {"train": {}, "test": {}}
    files: dict[str, Path] = {}
    for split, sources in _placed(task_files(options.sources), options).items():
        for source in sources:
            found = read_tasks(source)
            if twice := sorted(found.keys() & files.keys()):
                raise DatasetError(f"task {twice[0]} is in {files[twice[0]]} and in {source}; leave one of them out")
            files |= dict.fromkeys(found, source)
            tasks[split] |= found
    if options.tasks is not None:
        names = [name.strip() for name in options.tasks.split(",")]
        chosen = chosen_tasks(tasks["train"] | tasks["test"], names)
        tasks = {part: {name: found[name] for name in found if name in chosen} for part, found in tasks.items()}
    unsolved = sum("output" not in pair for task in tasks["train"].values() for pair in task["test"])
    if unsolved:
        print(f"warning: {unsolved} test pairs of training tasks have no solution and are left out", file=sys.stderr)
    made_by = {"augmentations": options.augmentations, "size": options.size, "seed": options.seed}
    splits, identifiers = arc_splits(tasks["train"], tasks["test"], **made_by)
    return {
        "splits": splits,
        **described(puzzle),
        "identifiers": identifiers,
        "provenance": {"options": made_by | ({"tasks": options.tasks} if options.tasks else {})},
        "files": {"test_puzzles.json": tasks["test"]} if tasks["test"] else {},
    }


def _from_npy(options: argparse.Namespace) -> dict[str, Any]:
    if len(options.sources) != 1:
        raise DatasetError(f"npy reads one folder, got {len(options.sources)}; import them one by one")
    if options.split is not None:
        raise DatasetError("npy keeps the splits of the folder; leave --split out")
    source = options.sources[0]
    splits: dict[str, Split] = {}
    stated: dict[str, Metadata] = {}
    for name in splits_of(source) or ["train"]:  # "train" says what is missing
        stated[name], splits[name] = read_split(source, name)
        if count := unscored_examples(source, name, stated[name], splits[name]):
            print(f"warning: {source / name}: {count} examples have no scored cell", file=sys.stderr)
    check_alike(source, stated, (*SHARED, "sources"))
    metadata = stated[name]
    try:
        task = puzzle_of(metadata).task
    except UnknownPuzzle:
        task = metadata.task
    asked = source / "test_puzzles.json"
    return {
        "splits": splits,
        "task": task,
        "vocab_size": metadata.vocab_size,
        "pad_id": metadata.pad_id,
        "ignore_label_id": metadata.ignore_label_id,
        "blank_identifier_id": metadata.blank_identifier_id,
        "identifiers": read_identifiers(source, metadata),
        "sources": metadata.sources,
        "structure": structure_of(metadata),
        "provenance": metadata.provenance,
        "files": {asked.name: read_tasks(asked)} if asked.exists() else {},
    }


FORMATS = {
    "sudoku-csv": _from_tables,
    "maze-csv": _from_tables,
    "arc": _from_arc,
    "addition-jsonl": _from_sums,
    "npy": _from_npy,
    **dict.fromkeys(SUITES, _from_suite),
}


def run_export(options: argparse.Namespace) -> None:
    """Write the CSV.

    Raises:
        DatasetError: a set of another family.
    """
    name = options.split or next(iter(splits_of(options.directory)), "train")
    metadata, split = read_split(options.directory, name)
    puzzle = puzzle_of(metadata)
    if not isinstance(puzzle, Sudoku | Maze):
        raise DatasetError(f"{options.directory} holds {puzzle.task['name']}; only Sudoku and mazes are written as CSV")
    write_table(options.output, puzzle, metadata, split, name)
    print(f"{options.output}: {len(split.inputs):,} puzzles of {options.directory}, split {name}")


def _split_of(source: Path, options: argparse.Namespace) -> str:
    words = [word.lower() for name in (source.stem, source.absolute().parent.name) for word in WORD.findall(name)]
    hint = next((HINTS[word] for word in words if word in HINTS), "test")
    if options.format == "arc" and hint == "validation":  # ARC has training and test tasks
        hint = "test"
    return options.split or hint


def _placed(sources: list[Path], options: argparse.Namespace) -> dict[str, list[Path]]:
    """The sources by split, which is printed."""
    placed: dict[str, list[Path]] = {}
    for source in sources:
        placed.setdefault(_split_of(source, options), []).append(source)
    for split, files in placed.items():
        names = ", ".join(map(str, files)) if len(files) <= 3 else f"{files[0]} to {files[-1]}, {len(files)} files"
        print(f"split {split}: {names if names.isprintable() else repr(names)}")
    return placed


def _by_split(options: argparse.Namespace) -> dict[str, Path]:
    """The sources, of which each is a split."""
    placed = _placed(options.sources, options)
    if several := next((split for split, files in placed.items() if len(files) > 1), None):
        raise DatasetError(
            f"two sources are for the split '{several}'; name the files train.csv, test.csv, or join them"
        )
    return {split: files[0] for split, files in placed.items()}
