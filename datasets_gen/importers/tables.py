"""CSV of Sudokus and mazes: source, question, answer, rating, as Sudoku-Extreme and Maze-Hard have them."""

from __future__ import annotations

import csv
import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from datasets_gen.family import Puzzle
from datasets_gen.layout import INT32_MOST, DatasetError, Split, text_file
from datasets_gen.maze import Maze
from datasets_gen.sudoku import Sudoku
from datasets_gen.sudoku.tables import BOXES
from datasets_gen.sudoku.text import BLANKS
from datasets_gen.sudoku.text import boards as sudokus

COLUMNS = ["source", "question", "answer", "rating"]
NAMES = {  # of columns in other programs' files
    **dict.fromkeys(("puzzle", "puzzles", "quiz", "quizzes", "sudoku"), "question"),
    **dict.fromkeys(("solution", "solutions", "answers"), "answer"),
}
OTHER_COLUMN = {"question": "o", "answer": BLANKS}  # characters of the other column
FAMILIES: dict[str, type[Sudoku] | type[Maze]] = {"sudoku": Sudoku, "maze": Maze}


class Table(NamedTuple):
    """The content of a CSV file."""

    puzzle: Sudoku | Maze
    split: Split
    sources: list[str]  # (P,) the origin of each puzzle
    style: dict[str, str]  # the line end and the character of an open cell, by which the file can be reproduced


def columns(head: str, lines: Iterator[str]) -> csv.DictReader[str]:
    """Return the rows of a CSV with commas, semicolons or tabs; columns in NAMES are renamed. Text has no columns."""
    rows = csv.DictReader(itertools.chain([head], lines), delimiter=max(",;\t", key=head.count), strict=True)
    try:
        names = [name.strip().lower() for name in rows.fieldnames or ()]
    except csv.Error:  # quotes of another kind of text
        names = []
    rows.fieldnames = [NAMES.get(name, name) for name in names]
    return rows


def read_table(path: Path, name: str) -> Table:
    """Load a CSV file of "sudoku" or "maze"; Sudokus also as any text of boards, whose answers a solver finds."""
    boards: dict[str, list[str]] = {"question": [], "answer": []}
    ratings, sources = [], []
    with text_file(path) as file:
        head = file.readline()
        rows = columns(head, file)
        if missing := boards.keys() - {*(rows.fieldnames or ())}:
            if name == "sudoku" and missing == {"answer"} and len(rows.fieldnames or ()) > 1:
                return _unsolved(path, rows)
            if name == "sudoku" and (typed_boards := sudokus(head + file.read())):
                board, places = Sudoku().sized(typed_boards[0]), (f"{path}, puzzle {n}" for n in itertools.count(1))
                split = solved(board, zip(places, typed_boards, strict=False))
                return Table(board, split, [path.name] * len(typed_boards), {"line_end": "\n", "blank": "."})
            raise DatasetError(f"{path}, line 1: no column {' or '.join(sorted(missing))}; expected {COLUMNS}")
        for where, row in _rows(path, rows):
            for column, texts in boards.items():
                texts.append(row[column])
                if len(row[column]) != (cells := len(boards["question"][0])):
                    raise DatasetError(f"{where}: {column} has {len(row[column])} cells, {cells} expected")
            sources.append(row.get("source", ""))
            ratings.append(_rating(row.get("rating", ""), where))
    if not sources:
        raise DatasetError(f"{path} contains no puzzles")
    size = math.isqrt(cells)
    if size**2 != cells or (name == "sudoku" and size not in BOXES):
        raise DatasetError(f"{path}: {cells} cells are not a board of {name}")
    puzzle = FAMILIES[name](size)
    inputs, labels = (_tokens(boards[column], puzzle, column, path) for column in boards)
    style = {"line_end": "\r\n" if head.endswith("\r\n") else "\n"}
    if name == "sudoku":
        style["blank"] = next((blank for blank in BLANKS if any(blank in text for text in boards["question"])), ".")
    return Table(puzzle, Split.of_puzzles(inputs, labels, _ratings(ratings)), sources, style)


def _rows(path: Path, rows: csv.DictReader[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield ("FILE, line N", row) of each row. Raises DatasetError for a row of fewer or more fields."""
    try:
        for row in rows:
            where = f"{path}, line {rows.line_num}"
            if None in row or None in row.values():
                raise DatasetError(f"{where}: {len(rows.fieldnames or ())} fields are expected")
            yield where, row
    except csv.Error as error:
        raise DatasetError(f"{path}, line {rows.reader.line_num}: not CSV ({error})") from None


def _unsolved(path: Path, rows: csv.DictReader[str]) -> Table:
    """Return the Sudokus of a CSV file without answers, which a solver finds."""
    texts, ratings, sources = [], [], []
    for where, row in _rows(path, rows):
        texts.append((where, row["question"]))
        ratings.append(_rating(row.get("rating", ""), where))
        sources.append(row.get("source", ""))
    if not texts:
        raise DatasetError(f"{path} contains no puzzles")
    board = Sudoku().sized(texts[0][1])
    split = replace(solved(board, texts), ratings=_ratings(ratings))
    return Table(board, split, sources, {"line_end": "\n", "blank": "."})


def solved(puzzle: Puzzle, texts: Iterable[tuple[str, str]]) -> Split:
    """Return a split of typed puzzles, each (position, text); an exact solver finds the labels."""
    inputs, labels, tables = [], [], []
    for where, text in texts:
        try:
            tokens, relations = puzzle.typed(text)
        except DatasetError as error:
            raise DatasetError(f"{where}: {error}") from None
        solutions, answer = puzzle.exact(tokens, relations) or (0, tokens)
        if solutions == 0 or (solutions > 1 and not puzzle.multiple_solutions):
            raise DatasetError(f"{where}: the puzzle has {'several solutions' if solutions else 'no solution'}")
        inputs.append(tokens)
        labels.append(answer)
        tables += [] if relations is None else [relations[None]]  # for all puzzles or for none
    return Split.of_puzzles(np.array(inputs), np.array(labels), relations=stacked(tables) if tables else None)


def stacked(parts: list[np.ndarray]) -> np.ndarray:
    """Concatenate instances (N, M, 1 + C + n_cells) of several puzzles, padded to the same M and n_cells."""
    most = np.max([part.shape[1:] for part in parts], axis=0)
    missing = [[(0, 0), *((0, count) for count in most - part.shape[1:])] for part in parts]
    return np.concatenate([np.pad(part, by, constant_values=-1) for part, by in zip(parts, missing, strict=True)])


def _rating(text: str, where: str) -> float:
    """Return the rating in a field; NaN if it is empty."""
    try:
        rating = float(text or "-0")
    except ValueError:
        raise DatasetError(f"{where}: rating {text[:50]!r} is not a number") from None
    if not 0 <= rating < math.inf:
        raise DatasetError(f"{where}: rating {text[:50]!r} is not a finite number from 0")
    return rating if text else math.nan


def _ratings(ratings: list[float]) -> np.ndarray | None:
    """Return ratings (P,): int32 if all are whole, else float64 with NaN for a missing one; None if all are missing."""
    values = np.array(ratings)
    if np.isnan(values).all():
        return None
    whole = (values == np.floor(values)).all() and values.max() <= INT32_MOST
    return values.astype(np.int32) if whole else values


def _tokens(texts: list[str], puzzle: Sudoku | Maze, column: str, path: Path) -> np.ndarray:
    """Return the tokens (N, S) of the boards in a column."""
    table = np.zeros(256, np.uint8)
    for character, token in puzzle.typed_as.items():
        if character not in OTHER_COLUMN[column] + "?":  # replaces characters that are not in Latin-1
            table[ord(character)] = token
    text = "".join(texts)
    if column == "question" and isinstance(puzzle, Sudoku):
        text = text.translate({ord("?"): ".", ord("-"): "."})
    cells = np.frombuffer(text.encode("latin-1", "replace"), np.uint8)
    tokens = table[cells].reshape(len(texts), -1)
    if (tokens == 0).any():
        row, cell = np.argwhere(tokens == 0)[0]
        raise DatasetError(f"{path}: {column} of puzzle {row + 1} holds {texts[row][cell]!r} in cell {cell + 1}")
    return tokens
