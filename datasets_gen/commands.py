"""The commands of `python -m datasets_gen`; an error is one line and an exit code."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from datasets_gen import importers, verify
from datasets_gen.layout import DatasetError
from datasets_gen.maze import generate as maze
from datasets_gen.plugins import load_parts
from datasets_gen.sudoku import generate as sudoku
from datasets_gen.typed import Parser, typed

DESCRIPTION = """\
Make puzzle sets in the folder layout of HRM and TRM, look at them and check them.

  python -m datasets_gen sudoku --size 6 --train 2500 --test 1000 --output-dir data/sudoku6
  python -m datasets_gen maze --output-dir data/maze
  python -m datasets_gen sums.py --output-dir data/sums     a puzzle that your file declares (docs/own-puzzle.md)
  python -m datasets_gen show data/sudoku6
  python -m datasets_gen verify data/sudoku6

Every command has its own --help with examples. The same options and seed give the same bytes.
"""


COMMANDS: list[Callable[[argparse._SubParsersAction], None]] = [  # each adds one or more commands
    module.add_parser for module in (sudoku, maze, importers, verify)
]
FILES: dict[str, Callable[[argparse._SubParsersAction, str], None]] = {}  # for files, by the end of their names


def build_parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser of the command line; the first of the words may be a file that makes puzzles."""
    load_parts("commands")
    parser = Parser(prog="python -m datasets_gen", description=DESCRIPTION)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for add in COMMANDS:
        add(commands)
    for name in words[:1]:
        if Path(name).suffix in FILES:
            FILES[Path(name).suffix](commands, name)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code: 0 success, 1 error, 2 wrong usage, 130 interrupted."""
    try:
        words = sys.argv[1:] if argv is None else argv
        options = build_parser(words).parse_args(words)
        options.command(options)
        sys.stdout.flush()
    except SystemExit as stop:
        return int(stop.code or 0)
    except BrokenPipeError:  # the reader of our output has exited, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (KeyboardInterrupt, SystemError) as error:
        cause = error.__cause__ or error.__context__  # numba passes an interrupt on as the cause of a SystemError
        if isinstance(error, SystemError) and not isinstance(cause, KeyboardInterrupt):
            raise
        print("interrupted", file=sys.stderr)
        return 130
    except (DatasetError, MemoryError, OSError) as error:
        text = f"out of memory ({error})" if isinstance(error, MemoryError) else str(error)
        print(f"error: {typed(text)}", file=sys.stderr)
        return 1
    return 0
