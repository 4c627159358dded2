"""The published CSV files of Sudoku-Extreme and Maze-Hard (source, question, answer, rating), in and out."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from datasets_gen.layout import DatasetError, Metadata, Split
from datasets_gen.maze import Maze
from datasets_gen.sudoku import Sudoku

COLUMNS = ["source", "question", "answer", "rating"]
ALPHABETS = {  # character -> token
    "sudoku": {".": 1, "0": 1} | {str(digit): digit + 1 for digit in range(1, 10)},
    "maze": {"#": 1, " ": 2, "S": 3, "G": 4, "o": 5},
}
FAMILIES: dict[str, type[Sudoku] | type[Maze]] = {"sudoku": Sudoku, "maze": Maze}


class Table(NamedTuple):
    """A CSV file, read."""

    puzzle: Sudoku | Maze
    split: Split
    sources: list[str]  # names, which split.sources indexes
    style: dict[str, str]  # what must be known to write the same file again


def read_table(path: Path, name: str) -> Table:
    """Read a CSV file of "sudoku" or "maze".

    Raises:
        DatasetError: a missing file or column, or a row that is no puzzle, by its line.
    """
    boards: dict[str, list[str]] = {"question": [], "answer": []}
    ratings, sources = [], []
    with _opened(path) as file:
        style = {"line_end": "\r\n" if file.readline().endswith("\r\n") else "\n"}
        file.seek(0)
        rows = csv.DictReader(file)
        missing = [column for column in COLUMNS[1:3] if column not in (rows.fieldnames or [])]
        if missing:
            raise DatasetError(
                f"{path}: no column {' or '.join(missing)} in {rows.fieldnames}; expected {', '.join(COLUMNS)}"
            )
        for row in rows:
            for column, texts in boards.items():
                text = row[column] or ""
                texts.append(text)
                if len(text) != len(boards["question"][0]):
                    raise DatasetError(
                        f"{path}, line {rows.line_num}: {column} has {len(text)} cells, "
                        f"{len(boards['question'][0])} expected"
                    )
            sources.append(row.get("source") or "")
            ratings.append(_rating(row.get("rating"), f"{path}, line {rows.line_num}"))
    if not sources:
        raise DatasetError(f"{path} holds no puzzle")
    size = round(len(boards["question"][0]) ** 0.5)
    if size * size != len(boards["question"][0]):
        raise DatasetError(f"{path}: {len(boards['question'][0])} cells are no square board")
    puzzle = FAMILIES[name](size)
    inputs, labels = (
        _tokens(texts, ALPHABETS[name], puzzle.vocab_size, f"{path}: {column}") for column, texts in boards.items()
    )
    names = sorted(set(sources))
    number = {source: index for index, source in enumerate(names)}
    split = Split.of_puzzles(inputs, labels, sources=np.array([number[source] for source in sources], np.int32))
    if None not in ratings:
        values = np.array(ratings)
        whole = (values == values.astype(np.int32)).all()
        split = replace(split, ratings=values.astype(np.int32 if whole else np.float32))
    if name == "sudoku":
        style["blank"] = "0" if any("0" in text for text in boards["question"]) else "."
    return Table(puzzle, split, names, style)


def write_table(path: Path, puzzle: Sudoku | Maze, metadata: Metadata, split: Split) -> None:
    """The CSV of one split, as published; the folder of `path` must exist.

    Raises:
        DatasetError: `path` exists.
    """
    if path.exists():
        raise DatasetError(f"{path} already exists; name another file or remove it")
    style: dict[str, Any] = metadata.provenance.get("style", {})
    characters = {token: character for character, token in reversed(ALPHABETS[puzzle.task["name"]].items())}
    if "blank" in style:
        characters[1] = style["blank"]
    glyphs = np.array(["", *(characters[token] for token in range(1, puzzle.vocab_size))])
    owner = np.repeat(np.arange(len(split.puzzle_indices) - 1), np.diff(split.puzzle_indices))
    scratch = path.with_name(f".{path.name}.partial")
    try:
        with scratch.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator=style.get("line_end", "\n"))
            writer.writerow(COLUMNS)
            for index, puzzle_index in enumerate(owner):
                source = metadata.sources[split.sources[puzzle_index]] if split.sources is not None else ""
                rating = f"{split.ratings[puzzle_index]:g}" if split.ratings is not None else ""
                board, answer = ("".join(glyphs[tokens[index]]) for tokens in (split.inputs, split.labels))
                writer.writerow([source, board, answer, rating])
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)


def _opened(path: Path) -> IO[str]:
    try:
        return path.open(newline="")
    except FileNotFoundError:
        raise DatasetError(f"{path} does not exist; download it first and give its local path") from None


def _rating(text: str | None, where: str) -> float | None:
    if not text:
        return None
    try:
        return float(text)
    except ValueError:
        raise DatasetError(f"{where}: rating {text!r} is no number") from None


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
