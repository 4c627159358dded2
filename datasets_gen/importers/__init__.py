"""`python -m datasets_gen import`: imports puzzle sets of other sources."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from collections.abc import Callable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from datasets_gen.arguments import add_command, described, whole_number
from datasets_gen.importers.tables import read_table
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
    write_dataset,
)
from datasets_gen.plugins import load_parts
from datasets_gen.puzzles import known_puzzle, structure_of
from datasets_gen.verify import repeated
from datasets_gen.version import __version__

HINTS = {  # words of a file's or a folder's name
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation"), "validation"),
    **dict.fromkeys(("test", "testing", "eval", "evaluation"), "test"),
}
WORD = re.compile("[A-Z]?[a-z]+|[A-Z]+")
PAGE = """Read a published set into the layout.

Reads puzzles of other sources from local files; it downloads nothing. The files to fetch, and the commands:

{}
A word in the name of the file or else of its folder determines the split (train, training, val, valid, validation,
test, testing, eval, evaluation); the default is test. --split overrides the names. The command prints every split.
"""


class Format(NamedTuple):
    """Files that `import` can load."""

    read: Callable[[argparse.Namespace], dict[str, Any]]  # the arguments of `write_dataset`
    example: str  # a part of PAGE
    options: Mapping[str, Mapping[str, Any]] = {}  # besides --split: names, and arguments of `add_argument`
    sources: str = "local files"


FORMATS: dict[str, Format] = {}
BESIDE: dict[str, Callable[[Path], Any]] = {}  # files of a set next to its splits, with loaders: npy copies them


def add_parser(commands: argparse._SubParsersAction) -> None:
    """Add the command `import`."""
    load_parts("importers")
    page = PAGE.format("".join(dict.fromkeys(form.example for form in FORMATS.values())))
    parser = add_command(commands, "import", run_import, page)
    formats = parser.add_subparsers(dest="format", metavar="FORMAT", required=True, help=", ".join(FORMATS))
    for name, form in FORMATS.items():
        reader = formats.add_parser(name, epilog=f"example:\n{form.example}")
        reader.add_argument("sources", type=Path, nargs="+", metavar="SOURCE", help=form.sources)
        reader.add_argument("--output-dir", type=Path, required=True, metavar="DIR", help="a new folder")
        reader.add_argument("--split", choices=SPLITS, help="the split of all sources")
        for option, settings in form.options.items():
            reader.add_argument(f"--{option}", **settings)


def run_import(options: argparse.Namespace) -> None:
    """Load the sources and save a set; writes nothing if a source is faulty."""
    check_free(options.output_dir)
    contents = FORMATS[options.format].read(options)
    files = [source.absolute().name for source in options.sources]
    words = [options.format, *map(shlex.quote, files)]
    for name in ("split", *FORMATS[options.format].options):
        if (value := getattr(options, name)) is not None:
            words += [f"--{name}", shlex.quote(value.name if isinstance(value, Path) else str(value))]
    provenance = {
        "command": " ".join(["python -m datasets_gen import", *words]),
        "files": files,
        "version": __version__,
    }
    contents["provenance"] = {**contents.get("provenance", {}), **provenance}
    for warning in repeated(contents["splits"]):
        print(f"warning: {warning}", file=sys.stderr)
    write_dataset(options.output_dir, **contents)
    made = ", ".join(f"{len(split.inputs):,} {name}" for name, split in contents["splits"].items())
    print(f"{options.output_dir}: {made} examples, {contents['vocab_size']} tokens")


def _from_tables(options: argparse.Namespace) -> dict[str, Any]:
    name = options.format.removesuffix("-csv")
    tables = {split: read_table(source, name) for split, source in by_split(options).items()}
    first = next(iter(tables.values()))
    number = {name: i for i, name in enumerate(sorted({*chain(*(table.sources for table in tables.values()))}))}
    if options.subsample is not None and "train" not in tables:
        raise DatasetError("--subsample draws from the training file: name it train.csv, or add --split train")
    if options.seed and options.subsample is None:
        raise DatasetError(f"--seed {options.seed} needs --subsample, which draws; leave it out")
    if options.subsample == 0 or (options.seed or 0) >= 2**32:
        raise DatasetError(f"--subsample {options.subsample} --seed {options.seed}: draw some, with a seed below 2^32")
    splits = {}
    for key, table in tables.items():
        if table.puzzle != first.puzzle:
            raise DatasetError(f"the sources contain {first.puzzle} and {table.puzzle}; import them separately")
        split, sources = table.split, np.array([number[source] for source in table.sources], np.int32)
        rows: Any = slice(None)  # all, as views: a published file has 3.8 million
        if key == "train" and options.subsample and options.subsample < len(sources):
            # the rule of HRM's and TRM's builders, which set no seed
            rows = np.random.RandomState(options.seed or 0).choice(len(sources), options.subsample, replace=False)
        ratings = None if split.ratings is None else split.ratings[rows]
        splits[key] = Split.of_puzzles(split.inputs[rows], split.labels[rows], ratings, sources[rows])
    return {
        "splits": splits,
        **described(first.puzzle),
        "sources": list(number),
        "provenance": {"styles": {name: table.style for name, table in tables.items()}},
    }


def _from_npy(options: argparse.Namespace) -> dict[str, Any]:
    if len(options.sources) != 1:
        raise DatasetError(f"npy reads one folder, got {len(options.sources)}; import them one by one")
    if options.split is not None:
        raise DatasetError("npy keeps the splits of the folder; remove --split")
    source = options.sources[0]
    splits: dict[str, Split] = {}
    stated: dict[str, Metadata] = {}
    for name in splits_of(source) or ["train"]:  # "train" says what is missing
        stated[name], splits[name] = read_split(source, name)
    check_alike(source, stated, (*SHARED, "sources"))
    metadata = stated[name]
    puzzle = known_puzzle(metadata)
    kept = ("vocab_size", "pad_id", "ignore_label_id", "blank_identifier_id", "sources", "provenance")
    return {
        **{field: getattr(metadata, field) for field in kept},
        "splits": splits,
        "task": metadata.task if puzzle is None else puzzle.task,
        "identifiers": read_identifiers(source, metadata),
        "structure": structure_of(metadata),
        "files": {name: read(source / name) for name, read in BESIDE.items() if (source / name).exists()},
    }


DRAWN = {
    "subsample": {"type": whole_number, "metavar": "N", "help": "draw N puzzles of the training file, as TRM does"},
    "seed": {"type": whole_number, "help": "random seed of the draw (default 0)"},
}
FORMATS |= {
    "sudoku-csv": Format(
        _from_tables,
        """\
  Sudoku-Extreme   data set sapientinc/sudoku-extreme, files train.csv and test.csv
                   python -m datasets_gen import sudoku-csv train.csv test.csv --subsample 1000 \\
                       --output-dir data/sudoku-1k
                   other CSV files, and texts of Sudokus such as .sdm; a solver finds missing answers
""",
        DRAWN,
    ),
    "maze-csv": Format(
        _from_tables,
        """\
  Maze-Hard        data set sapientinc/maze-30x30-hard-1k, files train.csv and test.csv
                   python -m datasets_gen import maze-csv train.csv test.csv --output-dir data/maze-hard
""",
        DRAWN,
    ),
    "npy": Format(
        _from_npy,
        """\
  HRM, TRM         a folder that one of their dataset builders wrote
                   python -m datasets_gen import npy data/arc1concept-aug-1000 --output-dir data/arc1
""",
        sources="a folder with splits",
    ),
}


def placed(sources: list[Path], split: str | None, hints: Mapping[str, str] = HINTS) -> dict[str, list[Path]]:
    """Return the sources by split, and print them: `split` if given, else the split that a file name suggests."""
    sources_of: dict[str, list[Path]] = {}
    for source in sources:
        words = [word.lower() for name in (source.stem, source.absolute().parent.name) for word in WORD.findall(name)]
        hint = next((hints[word] for word in words if word in hints), "test")
        sources_of.setdefault(split or hint, []).append(source)
    for name, files in sources_of.items():
        names = ", ".join(map(str, files)) if len(files) <= 3 else f"{files[0]} to {files[-1]}, {len(files)} files"
        print(f"split {name}: {names}")
    return sources_of


def by_split(options: argparse.Namespace) -> dict[str, Path]:
    """Return the source of each split. Raises DatasetError if a split has two."""
    sources = placed(options.sources, options.split)
    if several := [split for split, files in sources.items() if len(files) > 1]:
        raise DatasetError(f"two sources are for the split {several[0]}; rename the files to train.csv, test.csv")
    return {split: files[0] for split, files in sources.items()}
