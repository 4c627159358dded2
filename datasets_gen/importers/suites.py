"""Puzzles of other suites, a JSON object a line: reasoning-gym's entries, and the records of Pencil Puzzle Bench.

Each becomes the text that a person would type; our own solvers find the label.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from datasets_gen.family import Puzzle
from datasets_gen.importers.tables import json_line
from datasets_gen.layout import DatasetError, Split, read_metadata, splits_of, stacked, text_file
from datasets_gen.puzzles import puzzle_of
from datasets_gen.sudoku import Sudoku

Entry = dict[str, Any]


class Typed(NamedTuple):
    """One puzzle of a suite."""

    where: str  # file and line
    size: tuple[int, int]
    text: str


def _gym_board(entry: Entry) -> list[list[str]]:
    return [["." if cell in (0, "_") else str(cell) for cell in row] for row in entry["metadata"]["puzzle"]]


def _with_signs(rows: list[list[str]], signs: Iterable[list[Any]]) -> list[str]:
    """Lines of cells and signs in turn; (row, column, row, column, sign) of two neighbours."""
    lines = [list(" " * (2 * len(row))) for row in rows for _ in range(2)]
    for number, row in enumerate(rows):
        lines[2 * number][::2] = row
    for row, column, other, _, sign in signs:
        if row == other:
            lines[2 * row][2 * column + 1] = sign
        else:
            lines[2 * row + 1][2 * column] = {"<": "^", ">": "v"}[sign]
    return ["".join(line) for line in lines]


def _bench_board(entry: Entry, cells: dict[int, str]) -> list[list[str]]:
    rows, columns = int(entry["height"]), int(entry["width"])
    return [[cells.get(cell, ".") for cell in range(row * columns, (row + 1) * columns)] for row in range(rows)]


def _code(entry: Entry) -> str:
    return str(entry["puzzlink_url"]).rstrip("/").split("/")[-1]


def _digits(code: str) -> dict[int, str]:
    """Cell -> digit: g to z pass over 1 to 20 cells."""
    cells: dict[int, str] = {}
    at = 0
    for character in code:
        if character.isdecimal():
            cells[at] = character
        at += max(1, int(character, 36) - 15)
    return cells


def _lightup(code: str) -> dict[int, str]:
    """Cell -> wall: `.` has no number, 0 to e are the numbers 0 to 4 before 0, 1 or 2 free cells, g to z pass over."""
    cells: dict[int, str] = {}
    at = 0
    for character in code:
        value = 0 if character == "." else int(character, 36)
        if value < 15:
            cells[at] = "#" if character == "." else str(value % 5)
            at += 1 + value // 5
        else:
            at += value - 15
    return cells


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
            "sudoku": lambda entry: _bench_board(entry, _digits(_code(entry))),
            "lightup": lambda entry: _bench_board(entry, _lightup(_code(entry))),
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
            entry = json_line(line, where)
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
