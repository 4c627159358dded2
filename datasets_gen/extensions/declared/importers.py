"""Puzzles of other suites, a JSON object a line: reasoning-gym's entries, and the records of Pencil Puzzle Bench.

Each becomes the text that a person would type; our own solvers find the label.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from datasets_gen.arguments import described
from datasets_gen.family import Puzzle
from datasets_gen.importers import FORMATS, Format, by_split
from datasets_gen.layout import DatasetError, Split, parse_json, read_metadata, splits_of, text_file
from datasets_gen.puzzles import puzzle_of
from datasets_gen.sudoku import Sudoku

Entry = dict[str, Any]


class Typed(NamedTuple):
    """One puzzle of a suite."""

    where: str  # file and line
    size: tuple[int, int]
    text: str


def _gym_board(entry: Entry) -> list[list[str]]:
    board = [["." if cell in (0, "_") else str(cell) for cell in row] for row in entry["metadata"]["puzzle"]]
    if long := next((cell for row in board for cell in row if len(cell) != 1), None):
        raise ValueError(f"cell {long!r} is no single character")
    return board


def _with_signs(rows: list[list[str]], signs: Iterable[list[Any]]) -> list[str]:
    """Lines of cells and signs in turn; (row, column, row, column, sign) of two neighbours, the upper or left first."""
    lines = [list(" " * (2 * len(row))) for row in rows for _ in range(2)]
    for number, row in enumerate(rows):
        lines[2 * number][::2] = row
    for row, column, other, next_column, sign in signs:
        down, right = other - row, next_column - column
        if (
            (down, right) not in ((0, 1), (1, 0))
            or min(row, column) < 0
            or lines[row + other][2 * column + right] != " "
        ):
            raise ValueError(
                f"sign {[row, column, other, next_column, sign]} joins no two neighbours, or joins them again"
            )
        lines[row + other][2 * column + right] = {"<": "<^", ">": ">v"}[sign][down]
    return ["".join(line) for line in lines]


def _bench_board(entry: Entry, walls: bool) -> list[list[str]]:
    """The board of a code of puzz.link.

    Digits stand in cells, of which `walls` may be without a number (`.`) and may be followed by 0, 1 or 2 free cells
    (0 to 4, 5 to 9, a to e); g to z pass over 1 to 20 cells.
    """
    rows, columns = int(entry["height"]), int(entry["width"])
    cells: list[str] = []
    for character in str(entry["puzzlink_url"]).rstrip("/").split("/")[-1]:
        value = int(character, 36) if character != "." or not walls else -1
        if value > 15:
            cells += "." * (value - 15)
        elif value < (15 if walls else 10):
            cells += "#" if value < 0 else str(value % 5 if walls else value)
            cells += "." * (value // 5 if walls and value > 0 else 0)
        else:
            raise ValueError(f"{character!r} is no part of the code")
    size = rows * columns
    if len(cells) < size or set(cells[size:]) - {"."}:
        raise ValueError(f"the code has {len(cells)} cells, {rows}x{columns} are needed")
    return [cells[start : start + columns] for start in range(0, size, columns)]


class Suite(NamedTuple):
    """How the entries of a suite are read."""

    kind: Callable[[Entry], str]
    boards: dict[str, Callable[[Entry], list[list[str]]]]  # of each kind that can be read


SUITES = {
    "reasoning-gym": Suite(
        lambda entry: str(entry["metadata"]["source_dataset"]),
        dict.fromkeys(("sudoku", "mini_sudoku", "futoshiki", "n_queens"), _gym_board),
    ),
    "ppbench": Suite(
        lambda entry: str(entry["pid"]),
        {
            "sudoku": lambda entry: _bench_board(entry, walls=False),
            "lightup": lambda entry: _bench_board(entry, walls=True),
        },
    ),
}


def read_suite(path: Path, name: str, only: str | None) -> tuple[str, list[Typed]]:
    """The kind of a file's puzzles, and the puzzles; only: this kind of several.

    Raises:
        DatasetError: a missing file, a faulty line, or none that can be read; the text says what there is.
    """
    suite, found, others = SUITES[name], defaultdict[str, list[Typed]](list), Counter[str]()
    with text_file(path) as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            where = f"{path}, line {number}"
            entry = parse_json(line, where)
            try:
                kind = suite.kind(entry)
                if kind not in suite.boards or only not in (None, kind):
                    others[kind] += 1
                    continue
                board = suite.boards[kind](entry)
                lines = (
                    _with_signs(board, entry["metadata"]["constraints"]) if kind == "futoshiki" else map("".join, board)
                )
                found[kind].append(Typed(where, (len(board), len(board[0])), "\n".join(lines)))
            except (KeyError, TypeError, ValueError, IndexError) as error:
                raise DatasetError(f"{where}: no entry of {name} ({type(error).__name__}: {error})") from None
    if not found:
        there = ", ".join(f"{count} {kind}" for kind, count in others.items()) or "nothing"
        raise DatasetError(f"{path} holds {there}; what is read of {name}: {', '.join(suite.boards)}")
    if len(found) > 1:
        raise DatasetError(f"{path} holds several kinds; name one with --tasks: {', '.join(sorted(found))}")
    return next(iter(found.items()))


def suite_split(kind: str, found: list[Typed], like: Path | None) -> tuple[Puzzle, Split]:
    """The puzzle, and the split of those that have its size.

    like: a set of a declared puzzle, whose relations these are read with.

    Raises:
        DatasetError: a puzzle that the rules refuse, or that has no solution.
    """
    if "sudoku" in kind:
        puzzle: Puzzle = Sudoku(found[0].size[0])
    elif like is None:
        raise DatasetError(f"{kind} is a declared puzzle; name a set of it: --like data/SET")
    else:
        puzzle = puzzle_of(read_metadata(like, next(iter(splits_of(like)), "train")))
    inputs, labels, tables = [], [], []
    for typed in (typed for typed in found if typed.size == puzzle.grid_shape):
        try:
            tokens, relations = puzzle.typed(typed.text)
            labels.append(_solution(puzzle, tokens, relations))
        except DatasetError as error:
            raise DatasetError(f"{typed.where}: {error}") from None
        inputs.append(tokens)
        tables += [] if relations is None else [relations[None]]  # of all puzzles or of none
    if not inputs:
        sizes = ", ".join(f"{rows}×{columns}" for rows, columns in sorted({typed.size for typed in found}))
        raise DatasetError(f"{kind}: the boards are {sizes}, those of {like} {puzzle.grid_shape}")
    own = stacked(tables) if tables else None
    return puzzle, Split.of_puzzles(np.array(inputs), np.array(labels), relations=own)


def _solution(puzzle: Puzzle, tokens: np.ndarray, relations: np.ndarray | None) -> np.ndarray:
    """A solution (S,) of one question, by our own solvers."""
    told = puzzle.exact(tokens, relations)
    assert told is not None
    solutions, answer = told
    if not solutions:
        raise DatasetError("the puzzle has no solution")
    if mistake := puzzle.mistake(tokens, answer, relations):
        raise DatasetError(mistake)
    if solutions > 1 and not puzzle.several:
        raise DatasetError("the question has more than one solution")
    return answer


def from_suite(options: argparse.Namespace) -> dict[str, Any]:
    """Splits of the puzzles of one size."""
    splits: dict[str, Split] = {}
    for name, source in by_split(options).items():
        kind, found = read_suite(source, options.format, options.tasks)
        puzzle, splits[name] = suite_split(kind, found, options.like)
        if others := len(found) - len(splits[name].inputs):
            print(f"warning: {source}: {others} puzzles of another size are left out", file=sys.stderr)
    return {"splits": splits, **described(puzzle)}


EXAMPLE = """\
  reasoning-gym    its entries as JSON, one a line: sudoku, mini_sudoku, futoshiki, n_queens
                   python -m datasets_gen import reasoning-gym futoshiki.jsonl --like data/futoshiki \\
                       --output-dir data/gym-futoshiki
  PPBench          data set bluecoconut/pencil-puzzle-bench, a file of puzzles: sudoku, lightup
                   python -m datasets_gen import ppbench golden_300.jsonl --tasks lightup --like data/light-up \\
                       --output-dir data/ppbench-lightup
"""
OPTIONS: dict[str, dict[str, Any]] = {
    "tasks": {"metavar": "ID", "help": "only this kind of puzzle"},
    "like": {"type": Path, "metavar": "DIR", "help": "a set of the same puzzle, for its relations"},
}


def stacked(parts: list[np.ndarray]) -> np.ndarray:
    """Instances (N, M, 1 + C + P') of several puzzles, padded to the same M and P'."""
    most = np.max([part.shape for part in parts], axis=0)[1:]
    return np.concatenate(
        [
            np.pad(part, [(0, 0), *((0, n - m) for n, m in zip(most, part.shape[1:], strict=True))], constant_values=-1)
            for part in parts
        ]
    )


FORMATS |= dict.fromkeys(SUITES, Format(from_suite, EXAMPLE, OPTIONS))
