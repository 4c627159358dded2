"""Imports puzzles in JSON: entries of reasoning-gym, and records of Pencil Puzzle Bench.

Each is converted to the text that a person would type; our solvers compute the label.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from datasets_gen.arguments import described
from datasets_gen.family import Puzzle
from datasets_gen.importers import FORMATS, Format, by_split
from datasets_gen.importers.tables import solved
from datasets_gen.layout import DatasetError, Split, read_metadata, read_objects, splits_of
from datasets_gen.puzzles import puzzle_of
from datasets_gen.sudoku import Sudoku

Entry = dict[str, Any]
Board = list[str]  # lines of cells


def gym_board(entry: Entry) -> tuple[Board, str]:
    """Return the board of an entry of reasoning-gym, and the text of the puzzle."""
    board = [["." if cell in (0, "_") else str(cell) for cell in row] for row in entry["metadata"]["puzzle"]]
    if not (lines := list(map("".join, board))):
        raise ValueError("the puzzle is empty")
    if "constraints" not in entry["metadata"]:
        return lines, "\n".join(lines)
    text = np.full((2 * len(board), 2 * len(board[0])), " ")  # cells and signs in turn
    text[::2, ::2] = board
    for row, column, other, next_column, sign in entry["metadata"]["constraints"]:
        down, right = other - row, next_column - column
        if (down, right) not in ((0, 1), (1, 0)):
            raise ValueError(f"sign {[row, column, other, next_column, sign]} is not between neighbours")
        text[row + other, column + next_column] = {"<": "<^", ">": ">v"}[sign][down]
    return lines, "\n".join(map("".join, text[:-1]))


def bench_board(entry: Entry) -> tuple[Board, str]:
    """Return the board of a record of Pencil Puzzle Bench and its text, from a code of puzz.link.

    A digit is a clue. In Light Up it is a wall with a number, and 0 to 4, 5 to 9, a to e add 0, 1 or 2 free cells
    after it; `.` is a wall without a number. g to z skip 1 to 20 cells.
    """
    rows, columns, cells = int(entry["height"]), int(entry["width"]), ""
    walls = entry["pid"] == "lightup"
    for character in str(entry["puzzlink_url"]).rstrip("/").split("/")[-1]:
        if character == "." and walls:
            cells += "#"
        elif (value := int(character, 36)) > 15:
            cells += "." * (value - 15)
        elif walls and value < 15:
            cells += str(value % 5) + "." * (value // 5)
        else:
            cells += str(value)
    size = rows * columns
    if len(cells) < size or set(cells[size:]) - {"."}:
        raise ValueError(f"the code has {len(cells)} cells, {rows}x{columns} are needed")
    board = [cells[start : start + columns] for start in range(0, size, columns)]
    return board, "\n".join(board)


SUITES: dict[str, tuple[Callable[[Entry], Any], Callable[[Entry], tuple[Board, str]], tuple[str, ...]]] = {
    "reasoning-gym": (
        lambda entry: entry["metadata"].get("source_dataset"),
        gym_board,
        ("sudoku", "mini_sudoku", "futoshiki", "n_queens"),
    ),
    "ppbench": (lambda entry: entry["pid"], bench_board, ("sudoku", "lightup")),
}  # for each suite: functions for the kind of an entry and its board, and the supported kinds


def read_suite(path: Path, name: str, only: str | None) -> tuple[str, list[tuple[str, Board, str]]]:
    """Return the kind of a file's puzzles, and (file and line, board, text) of each; only: the kind to read."""
    kind_of, board_of, kinds = SUITES[name]
    by_kind = defaultdict[str, list[tuple[str, Board, str]]](list)
    for where, entry in read_objects(path):
        try:
            if isinstance(entry, dict) and isinstance(text := entry.get("metadata"), str):
                entry["metadata"] = json.loads(text)
            if (kind := kind_of(entry) or only) is None:
                raise DatasetError(f"{where} does not state its kind; name it with --tasks: {', '.join(kinds)}")
            if kind in kinds and only in (None, kind):
                by_kind[kind].append((where, *board_of(entry)))
        except (KeyError, TypeError, ValueError, IndexError) as error:
            if isinstance(error, DatasetError):
                raise
            raise DatasetError(f"{where} is not an entry of {name} ({type(error).__name__}: {error})") from None
    if len(by_kind) != 1:
        content = f"several kinds; name one with --tasks: {', '.join(sorted(by_kind))}" if by_kind else "no such puzzle"
        raise DatasetError(f"{path} contains {content}; supported kinds of {name}: {', '.join(kinds)}")
    return next(iter(by_kind.items()))


def suite_split(kind: str, entries: list[tuple[str, Board, str]], like: Path | None) -> tuple[Puzzle, Split]:
    """Return the puzzle and a split of the entries that have its size.

    like: a set of a declared puzzle, whose relations are used.
    """
    if "sudoku" in kind:
        puzzle: Puzzle = Sudoku(len(entries[0][1]))
    elif like is None:
        raise DatasetError(f"{kind} is a declared puzzle; type a set of it: --like data/SET")
    else:
        puzzle = puzzle_of(read_metadata(like, next(iter(splits_of(like)), "train")))
    fits = [(where, text) for where, board, text in entries if (len(board), len(board[0])) == puzzle.grid_shape]
    if not fits:
        raise DatasetError(f"{kind}: no board has the size {puzzle.grid_shape} of {like}")
    return puzzle, solved(puzzle, fits)


def from_suite(options: argparse.Namespace) -> dict[str, Any]:
    """Return splits of the puzzles of one size."""
    puzzles: list[Puzzle] = []
    splits: dict[str, Split] = {}
    for name, source in by_split(options).items():
        kind, entries = read_suite(source, options.format, options.tasks)
        puzzle, splits[name] = suite_split(kind, entries, options.like)
        puzzles.append(puzzle)
        if puzzle != puzzles[0]:
            raise DatasetError(f"the sources contain {puzzles[0]} and {puzzle}; import them separately")
        if others := len(entries) - len(splits[name].inputs):
            print(f"warning: {source}: skipped {others} puzzles of another size", file=sys.stderr)
    return {"splits": splits, **described(puzzle)}


EXAMPLE = """\
  reasoning-gym    entries as JSON: sudoku, mini_sudoku, futoshiki, n_queens
                   python -m datasets_gen import reasoning-gym futoshiki.jsonl --like data/futoshiki \\
                       --output-dir data/gym-futoshiki
  PPBench          data set bluecoconut/pencil-puzzle-bench, a file of puzzles: sudoku, lightup
                   python -m datasets_gen import ppbench golden_300.jsonl --tasks lightup --like data/light-up \\
                       --output-dir data/ppbench-lightup
"""
OPTIONS: dict[str, dict[str, Any]] = {
    "tasks": {"metavar": "ID", "help": "only this kind of puzzle"},
    "like": {"type": Path, "metavar": "DIR", "help": "a set of the same puzzle, which defines the relations"},
}


FORMATS |= dict.fromkeys(SUITES, Format(from_suite, EXAMPLE, OPTIONS))
