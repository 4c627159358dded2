"""Published text files: the CSV of Sudoku-Extreme and Maze-Hard, in and out, and STARS' sums.

CSV: source, question, answer, rating. Sums: a JSON object a line, with num1, num2 and their sum (or `answer`, which the
code of STARS reads).
"""

from __future__ import annotations

import csv
import itertools
import json
import math
import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from datasets_gen.layout import (
    MOST,
    TOO_DEEP,
    DatasetError,
    Metadata,
    Split,
    begins_with_mark,
    distinct,
    text_file,
)
from datasets_gen.maze import Maze
from datasets_gen.sudoku import Sudoku

COLUMNS = ["source", "question", "answer", "rating"]
ALPHABETS = {  # character -> token
    "sudoku": {".": 1, "0": 1} | {str(digit): digit + 1 for digit in range(1, 10)},
    "maze": {"#": 1, " ": 2, "S": 3, "G": 4, "o": 5},
}
ELSEWHERE = {"question": "o", "answer": ".0"}  # characters of the other column
FAMILIES: dict[str, type[Sudoku] | type[Maze]] = {"sudoku": Sudoku, "maze": Maze}
NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
STYLES = {"line_end": ("\n", "\r\n"), "encoding": ("utf-8-sig",), "blank": (".", "0")}  # see `Table.style`


class Table(NamedTuple):
    """A CSV file, read."""

    puzzle: Sudoku | Maze
    split: Split
    sources: list[str]  # names, which split.sources indexes
    style: dict[str, str]  # what must be known to write the same file again


def read_table(path: Path, name: str) -> Table:
    """Read a CSV file of "sudoku" or "maze".

    Raises:
        DatasetError: a missing file or column, or a faulty row; the text names its line.
    """
    boards: dict[str, list[str]] = {"question": [], "answer": []}
    ratings, sources = [], []
    with text_file(path) as file:
        head = file.readline()
        style = {"line_end": "\r\n" if head.endswith("\r\n") else "\n"}
        if begins_with_mark(path):
            style["encoding"] = "utf-8-sig"
        for line, row in _rows(path, csv.reader(itertools.chain([head], file), strict=True)):
            for column, texts in boards.items():
                texts.append(row[column])
                if len(row[column]) != len(boards["question"][0]):
                    raise DatasetError(
                        f"{path}, line {line}: {column} has {len(row[column])} cells, "
                        f"{len(boards['question'][0])} expected"
                    )
            sources.append(row.get("source", ""))
            ratings.append(_rating(row.get("rating", ""), f"{path}, line {line}"))
    if not sources:
        raise DatasetError(f"{path} holds no puzzle")
    cells = len(boards["question"][0])
    size = math.isqrt(cells)
    if size * size != cells:
        raise DatasetError(f"{path}: {cells} cells are no square board")
    try:
        puzzle = FAMILIES[name](size)
    except DatasetError as error:
        raise DatasetError(f"{path}: {cells} cells: {error}") from None
    inputs, labels = (
        _tokens(
            texts,
            {character: token for character, token in ALPHABETS[name].items() if character not in ELSEWHERE[column]},
            puzzle.vocab_size,
            f"{path}: {column}",
        )
        for column, texts in boards.items()
    )
    names = sorted(set(sources))
    number = {source: index for index, source in enumerate(names)}
    indices = np.array([number[source] for source in sources], np.int32)
    split = Split.of_puzzles(inputs, labels, _ratings(ratings), indices)
    if name == "sudoku":
        style["blank"] = "0" if any("0" in text for text in boards["question"]) else "."
    return Table(puzzle, split, names, style)


def _rows(path: Path, rows: Any) -> Iterator[tuple[int, dict[str, str]]]:
    """(line, {column: field}) of every row but the head."""
    try:
        columns: list[str] = next(rows, [])
        if missing := [column for column in COLUMNS[1:3] if column not in columns]:
            raise DatasetError(
                f"{path}, line 1: no column {' or '.join(missing)} in {_short(columns)}; expected {', '.join(COLUMNS)}"
            )
        if len(set(columns)) != len(columns):
            raise DatasetError(f"{path}, line 1: a column stands twice in {_short(columns)}")
        for row in rows:
            if len(row) == len(columns):
                yield rows.line_num, dict(zip(columns, row, strict=True))
            elif row:
                raise DatasetError(f"{path}, line {rows.line_num}: {len(row)} fields, {len(columns)} expected")
    except csv.Error as error:
        raise DatasetError(f"{path}, line {rows.line_num}: no CSV ({error})") from None


def _short(columns: list[str]) -> str:
    return repr(columns) if len(repr(columns)) <= 200 else f"{repr(columns)[:200]}…"


def write_table(path: Path, puzzle: Sudoku | Maze, metadata: Metadata, split: Split, name: str) -> None:
    """The CSV of one split, as published; the folder of `path` must exist. `name`: the split's.

    Raises:
        DatasetError: `path` exists.
    """
    if path.exists():
        raise DatasetError(f"{path} already exists; name another file or remove it")
    styles = metadata.provenance.get("styles")
    stated = styles.get(name) if isinstance(styles, dict) else None
    style = (
        {key: value for key, value in stated.items() if value in STYLES.get(key, ())}
        if isinstance(stated, dict)
        else {}
    )
    for key, tokens in (("inputs", split.inputs), ("labels", split.labels)):
        if len(empty := np.argwhere(tokens < 1)):
            raise DatasetError(
                f"{key}: cell {empty[0][1]} of example {empty[0][0]} is no cell of a {puzzle.task['name']}"
            )
    characters = {token: character for character, token in reversed(ALPHABETS[puzzle.task["name"]].items())}
    if "blank" in style:
        characters[1] = style["blank"]
    glyphs = np.array(["", *(characters[token] for token in range(1, puzzle.vocab_size))])
    owner = np.repeat(np.arange(len(split.puzzle_indices) - 1), np.diff(split.puzzle_indices))
    if not path.parent.is_dir():
        raise DatasetError(f"--output {path}: there is no folder {path.parent}")
    scratch = path.with_name(f".{path.name}.partial")
    try:
        with scratch.open("w", newline="", encoding=style.get("encoding", "utf-8")) as file:
            writer = csv.writer(file, lineterminator=style.get("line_end", "\n"))
            writer.writerow(COLUMNS)
            for index, puzzle_index in enumerate(owner):
                source = metadata.sources[split.sources[puzzle_index]] if split.sources is not None else ""
                rating = _written(split.ratings[puzzle_index]) if split.ratings is not None else ""
                board, answer = ("".join(glyphs[tokens[index]]) for tokens in (split.inputs, split.labels))
                writer.writerow([source, board, answer, rating])
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)


def _rating(text: str, where: str) -> float:
    """A rating with all its digits; NaN for an empty field."""
    if not text:
        return math.nan
    if not NUMBER.fullmatch(text):
        raise DatasetError(f"{where}: rating {text[:50]!r} is no number")
    rating = float(text)
    if Decimal(text) != Decimal(repr(rating)):
        raise DatasetError(f"{where}: rating {text[:50]} has more digits than a 64-bit float keeps")
    if rating < 0:
        raise DatasetError(f"{where}: rating {text[:50]} is negative")
    return rating


def _ratings(ratings: list[float]) -> np.ndarray | None:
    """(P,) int32 or int64 where all are whole, else float64, a missing one NaN; None where all are missing."""
    values = np.array(ratings)
    if np.isnan(values).all():
        return None
    if np.isnan(values).any() or (values != np.floor(values)).any() or values.max() > 2**53:
        return values
    return values.astype(np.int32 if values.max() <= MOST else np.int64)


def _written(rating: np.generic) -> str:
    """A rating as `_rating` reads it."""
    return "" if np.isnan(rating) else repr(rating.item()).removesuffix(".0")


def _tokens(texts: list[str], alphabet: dict[str, int], vocab_size: int, where: str) -> np.ndarray:
    table = np.zeros(256, np.uint8)
    for character, token in alphabet.items():
        table[ord(character)] = token if token < vocab_size else 0
    cells = np.frombuffer("".join(texts).encode("latin-1", "replace"), np.uint8)
    tokens = table[cells].reshape(len(texts), -1)
    if (tokens == 0).any():
        row, column = (int(place) for place in np.argwhere(tokens == 0)[0])
        raise DatasetError(f"{where} of puzzle {row + 1} holds {texts[row][column]!r} in cell {column + 1}")
    return tokens


def json_line(line: str, where: str) -> Any:
    """The JSON value of one line.

    Raises:
        DatasetError: it is none.
    """
    try:
        return json.loads(line, object_pairs_hook=distinct)
    except RecursionError:
        raise DatasetError(f"{where}: {TOO_DEEP}") from None
    except json.JSONDecodeError as error:
        raise DatasetError(f"{where}, column {error.colno}: no JSON ({error.msg})") from None
    except ValueError as error:
        raise DatasetError(f"{where}: {error}") from None
