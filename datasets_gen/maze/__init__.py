"""Mazes: the shortest path from S to G in a grid of walls; the rules, drawing and parsing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from datasets_gen.family import SquareBoard, drawn_lines, unframed
from datasets_gen.layout import DatasetError
from datasets_gen.maze.paths import FREE, GOAL, PATH, START, WALL, on_shortest_paths, solve
from datasets_gen.structure import GridSymmetry

READ = {"#": WALL, " ": FREE, ".": FREE, "S": START, "G": GOAL, "o": PATH}
CELLS = "type '#' for a wall, ' ' or '.' for a free cell, S, G, and o for the path"


@dataclass(frozen=True)
class Maze(SquareBoard):
    """Tokens: 0 padding (never used), 1 wall, 2 free, 3 start, 4 goal, 5 path. Every cell is scored.

    The label is the shortest path of a breadth-first search from S in the order down, left, right, up, where the first
    cell to reach another is its parent: the rule of the published Maze-Hard.
    """

    size: int = 30

    name = "maze"
    rating_name = "path cells"
    rules = "every label is the shortest path that the tie-break chooses"
    characters = "?# SGo"
    marks = (FREE,)
    outside = WALL  # as through walls, no path leads beyond the edge
    glyphs = "   SG "
    colours: ClassVar[dict[int, str]] = {WALL: "#6a6f78", START: "#3a9d6a", GOAL: "#d1495b", PATH: "#2f74b5"}

    def __post_init__(self) -> None:
        if self.size < 2:
            raise DatasetError(f"maze size {self.size} has no room for a start and a goal; choose 2 or more")

    @property
    def symmetry(self) -> GridSymmetry:
        """Return the rotations and reflections; the answer stays a shortest path, but rarely the tie-broken one."""
        return GridSymmetry(
            bands=1, rows_per_band=self.size, stacks=1, columns_per_stack=self.size,
            transpose=False, relabel=(FREE, FREE), moves=False, turns=True, keeps_label=False,
        )  # fmt: skip

    def fault(self, question: np.ndarray, answer: np.ndarray, relations: np.ndarray | None = None) -> str | None:
        """Return the first broken rule, or the first difference of the answer from the tie-broken path."""
        if broken := self.mistake(question, answer):
            return broken
        other = answer != solve(question[None])[0][0]
        if not other.any():
            return None
        place = self.place(int(other.argmax()))
        return f"the answer is a shortest path, but not the tie-broken one: they differ at {place}"

    def mistake(self, question: np.ndarray, answer: np.ndarray, relations: np.ndarray | None = None) -> str | None:
        """Return the first broken rule; every shortest path is right."""
        if not self._sound(question[None])[0]:
            return "the question is not a maze of walls, free cells, one S and one G"
        changed = (question != answer) & ~((question == FREE) & (answer == PATH))
        if changed.any():
            return f"the answer changes {self.place(int(changed.argmax()))}, which is not a free cell turned into path"
        if blocked := self.contradiction(question):
            return blocked
        length = int(solve(question[None])[1][0])
        cells = int((answer == PATH).sum()) + 2
        if cells != length:
            return f"the answer's path has {cells} cells with both ends, the shortest has {length}"
        if solve(_corridors(answer[None]))[1][0] != length:
            return "the answer's cells do not join S and G"
        return None

    def contradiction(self, question: np.ndarray, relations: np.ndarray | None = None) -> str | None:
        """Return a text if walls separate S from G, else None."""
        return None if solve(question[None])[1][0] else "no path leads from S to G"

    def exact(self, question: np.ndarray, relations: np.ndarray | None = None) -> tuple[int, np.ndarray]:
        """Return the number of shortest paths (2 for more) and the published one."""
        labels, _, paths = solve(question[None])
        return int(paths[0]), labels[0]

    def _sound(self, questions: np.ndarray) -> np.ndarray:
        ends = ((questions == START).sum(1) == 1) & ((questions == GOAL).sum(1) == 1)
        return ends & ((questions >= WALL) & (questions <= GOAL)).all(1)

    def solved(self, questions: np.ndarray, answers: np.ndarray, relations: np.ndarray | None = None) -> np.ndarray:
        """Return (N,) bool: whether each answer (N, S) marks one of the shortest paths and nothing else."""
        kept = ((questions == answers) | ((questions == FREE) & (answers == PATH))).all(1)
        right = kept & self._sound(questions)
        lengths = solve(questions[right])[1]
        marked = (answers[right] == PATH).sum(1) + 2
        right[right] = (lengths > 0) & (solve(_corridors(answers[right]))[1] == lengths) & (marked == lengths)
        return right

    def features(self, questions: np.ndarray, answers: np.ndarray) -> dict[str, np.ndarray]:
        """Return statistics (N,) by name; both ends of the path are counted."""
        return {"path cells": (answers == PATH).sum(1) + 2, "share of walls": (questions == WALL).mean(1)}

    def marked(self, questions: np.ndarray, answers: np.ndarray) -> np.ndarray:
        """Return the answers (N, S) with a separate token for free cells of the other shortest paths."""
        marked = (answers == FREE) & on_shortest_paths(questions)
        return np.where(marked, self.vocab_size, answers).astype(answers.dtype)

    def signatures(self, questions: np.ndarray, answers: np.ndarray, relations: np.ndarray | None = None) -> np.ndarray:
        """Return hashes (N,) uint64, equal for mazes that are rotations or reflections of each other."""
        grids = questions.reshape(-1, self.size, self.size)
        turns = [np.rot90(side, k, (1, 2)) for side in (grids, grids.swapaxes(1, 2)) for k in range(4)]
        keys = np.random.Generator(np.random.PCG64(0)).integers(0, 1 << 63, (6, self.seq_len), np.uint64)
        cells = np.arange(self.seq_len)
        return np.min([keys[turn.reshape(len(grids), self.seq_len), cells].sum(1) for turn in turns], axis=0)

    def sized(self, text: str) -> Maze:
        """Return the maze of the typed size, rows or columns of the longest row; this one for an empty text."""
        rows = _rows(text)
        size = max(len(rows), *map(len, rows)) if rows else 0
        return Maze(size) if size >= 2 else self

    def typed(self, text: str) -> tuple[np.ndarray, None]:
        """Parse the tokens of a typed maze; the cells of a typed path become free."""
        tokens = self.parse(text)
        return np.where(tokens == PATH, FREE, tokens).astype(tokens.dtype), None

    def parse(self, text: str) -> np.ndarray:
        """Parse tokens (S,) of a typed maze of '#', ' ' or '.', 'S', 'G', 'o'; in framed lines, lines, or one line.

        Short rows are padded with free cells. Walls pad a rectangle to the square of the set; no path leads through
        them, as none leads beyond an edge.
        """
        rows = _rows(text)
        width = max(map(len, rows), default=0)
        if max(len(rows), width) > self.size:
            raise DatasetError(f"the maze has {len(rows)} rows and {width} columns; at most {self.size} of each fit")
        for number, row in enumerate(rows, 1):
            if (foreign := next((character for character in row if character not in READ), None)) is not None:
                raise DatasetError(f"{foreign!r} in row {number} is not a cell of a maze; {CELLS}")
        typed = "".join(row.ljust(width).ljust(self.size, "#") for row in rows).ljust(self.seq_len, "#")
        tokens = np.array([READ[character] for character in typed], np.uint8)
        for end in "SG":
            if (count := typed.count(end)) != 1:
                raise DatasetError(f"the maze has {count} cells {end}; mark one")
        return tokens

    def texts(self, text: str) -> list[str]:
        """Return the mazes of a file: one that is drawn in rows, or one a line."""
        lines = super().texts(text)
        return [text] if len(lines) > 1 and text.count("S") == text.count("G") == 1 else lines


def _corridors(answers: np.ndarray) -> np.ndarray:
    """Return answers (N, S) as mazes whose only free cells are the path."""
    return np.where(answers == FREE, WALL, np.where(answers == PATH, FREE, answers))


def _rows(text: str) -> list[str]:
    """Return the rows of cells of a typed maze; an empty line between others is a free row."""
    rows, framed = unframed(drawn_lines(text))
    if len(rows) != 1 or framed:
        return rows
    size = math.isqrt(len(rows[0]))
    if size * size != len(rows[0]):
        raise DatasetError(f"{len(rows[0])} cells in one line are not a square maze; draw it in lines")
    return [rows[0][start : start + size] for start in range(0, size * size, size)]
