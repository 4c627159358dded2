"""Puzzles as `show` prints them: signs between cells, maps of cages, clues of lines, edges of a graph."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from datasets_gen.extensions.declared import shapes
from datasets_gen.extensions.declared.expressions import Runs
from datasets_gen.extensions.declared.puzzle import ABSENT, Declared, Typed, whole
from datasets_gen.extensions.declared.rules import cp
from datasets_gen.family import drawn_lines
from datasets_gen.layout import DatasetError

PER_LINE = 10  # nodes or edges of a graph


def labelled(text: str, *heads: str) -> list[str]:
    """The board above lines that begin with each of `heads` and a colon, and what stands behind each of these."""
    lines = list(filter(str.strip, drawn_lines(text)))
    board, told = lines[: -len(heads)], [line.partition(":") for line in lines[-len(heads) :]]
    if [head for head, _, _ in told] != list(heads) or any(":" in line for line in board):
        raise DatasetError(f"type {' and '.join(f'`{head}: …`' for head in heads)} below the board, once")
    return ["\n".join(board), *(tail for _, _, tail in told)]


class WithSigns(Declared):
    """Cells with a space, `<` or `>` between neighbours, and between rows lines of `^` (above < below) and `v`."""

    form = "signs"
    reserved = "<>^v"

    def draw(self, tokens: np.ndarray, question: np.ndarray | None = None, relations: np.ndarray | None = None) -> str:
        """Every second character is a cell."""
        rows, columns = self.grid
        board = np.full((2 * rows, 2 * columns), " ")
        board[::2, ::2] = np.array(list(self.characters))[tokens].reshape(self.grid)
        for low, high in (each.cells for each in self.own(relations)):
            row, column = divmod(min(low, high), columns)
            beside = abs(low - high) == 1
            board[2 * row + (not beside), 2 * column + beside] = ("<>" if beside else "^v")[low > high]
        return "\n".join("".join(line).rstrip() for line in board[:-1])

    def typed(self, text: str) -> Typed:
        """The same; without signs, rows of cells are enough."""
        if not set(text) & set(self.reserved):
            return self.of_constraints(self.clues(text))
        (rows, columns), x = self.grid, self.cells.flat
        lines = [line.rstrip().ljust(2 * columns - 1) for line in drawn_lines(text)]
        if [len(line) for line in lines] != [2 * columns - 1] * (2 * rows - 1):
            raise DatasetError(f"type {2 * rows - 1} lines of at most {2 * columns - 1} characters, as `show` prints")
        board, found = np.array([list(line) for line in lines]), []
        for row, column in np.argwhere(np.isin(board, list(self.reserved))).tolist():
            sign, first = board[row, column], row // 2 * columns + column // 2
            if (row % 2, column % 2) != ((0, 1) if sign in "<>" else (1, 0)):
                raise DatasetError(f"{sign} in line {row + 1}, column {column + 1} stands between no two cells")
            one, other = x[first], x[first + (1 if sign in "<>" else columns)]
            found.append(one < other if sign in "<^" else other < one)
            board[row, column] = " "
        cells = "\n".join(map("".join, board[::2, ::2]))
        board[::2, ::2] = " "
        if strange := "".join(board.ravel()).strip():
            raise DatasetError(f"{strange[0]!r} stands where a sign or a space is expected")
        return self.of_constraints([*self.clues(cells), *found])


class WithCages(Declared):
    """A board, then the same board with a letter for each cage; where cages have sums, lines of `A=12 B=7`.

    A dot in the second board is a cell of no cage.
    """

    form = "cages"
    reserved = "="

    def caged(self, x: Any, cages: list[Any], sums: Sequence[int]) -> list[Any]:
        """The constraints of cages, each an index of cells; the sum of a cage of one cell is a clue in it."""
        return [
            *(cp.AllDifferent(x[cage]) for cage in cages if x[cage].size > 1),
            *(cp.sum(x[cage]) == total for cage, total in zip(cages, sums, strict=False)),
        ]

    def draw(self, tokens: np.ndarray, question: np.ndarray | None = None, relations: np.ndarray | None = None) -> str:
        """Board, map and sums."""
        own = self.own(relations)
        letters = dict(zip(dict.fromkeys(each.ordered for each in own), shapes.LETTERS, strict=False))
        sums = [f"{letters[each.ordered]}={each.numbers[0]}" for each in own if each.numbers]
        lines = [" ".join(sums[start : start + 8]) for start in range(0, len(sums), 8)]
        board, marked = super(Declared, self).draw(tokens), self.on_board(shapes.lettered(letters, self.seq_len))
        return "\n".join([board, "", *map("".join, marked), *([""] if lines else []), *lines])

    def typed(self, text: str) -> Typed:
        """Board and map, or the map alone."""
        lines = list(filter(str.strip, drawn_lines(text)))
        told = [word.partition("=") for line in lines if "=" in line for word in line.split()]
        sums = {name: whole(total, f"sum of cage {name}") for name, _, total in told}
        if len(sums) < len(told) or any(len(name) != 1 for name in sums):
            raise DatasetError("type LETTER=SUM, once for each cage")
        cells = [line for line in lines if "=" not in line]
        board, cages = cells[: -self.grid[0]], shapes.read_letters(cells[-self.grid[0] :], self.grid)
        if sums and sums.keys() != cages.keys():
            raise DatasetError(f"cage {min(sums.keys() ^ cages.keys())} has no cell, or no sum")
        caged = self.caged(self.cells.flat, list(cages.values()), [sums[name] for name in cages] if sums else [])
        return self.of_constraints([*(self.clues("\n".join(board)) if board else []), *caged])


class WithRuns(Declared):
    """Rows, each followed by the lengths of its runs; then `columns: 1 2, 3, …`. An empty line has the run 0."""

    form = "runs"

    def draw(self, tokens: np.ndarray, question: np.ndarray | None = None, relations: np.ndarray | None = None) -> str:
        """Board and runs."""
        runs = {each.cells: each.numbers for each in self.own(relations)}
        cells = np.arange(self.seq_len).reshape(self.grid)
        told = [" ".join(map(str, runs.get(tuple(line.tolist())) or (0,))) for line in (*cells, *cells.T)]
        board = super(Declared, self).draw(tokens).split("\n")
        across = [f"{row}  {clue}" for row, clue in zip(board, told, strict=False)]
        return "\n".join([*across, f"columns: {', '.join(told[len(board) :])}"])

    def typed(self, text: str) -> Typed:
        """Board and runs."""
        (board, columns), x = labelled(text, "columns"), self.cells
        across = [line.split() for line in board.split("\n")]
        clues = [words[1:] for words in across] + [words.split() for words in columns.split(",")]
        runs = [[whole(word, "length of a run") for word in clue] for clue in clues]
        if [len(across), len(runs)] != [len(x), len(x) + len(x.T)]:
            raise DatasetError(
                f"{len(across)} rows and {len(runs) - len(across)} columns; type {len(x)} and {len(x.T)}"
            )
        if any(not line or (0 in line and len(line) > 1) for line in runs):
            raise DatasetError("a line has no run, or 0 beside others; type lengths from 1, or 0 alone for none")
        lines = [Runs(cells, [n for n in line if n]) for cells, line in zip((*x, *x.T), runs, strict=True)]
        return self.of_constraints([*self.clues("\n".join(words[0] for words in across)), *lines])


class WithEdges(Declared):
    """Words in any order: `3=R` for a node of a known colour, `12=.` for an open one, `3-12` for an edge."""

    form = "edges"
    reserved = ""

    def draw(self, tokens: np.ndarray, question: np.ndarray | None = None, relations: np.ndarray | None = None) -> str:
        """Nodes, then edges."""
        asked = tokens if question is None else question
        nodes = [f"{node}={self.characters[tokens[node]]}" for node in np.flatnonzero(asked != ABSENT)]
        edges = ["-".join(map(str, each.cells)) for each in self.own(relations)]
        parts = [words[i : i + PER_LINE] for words in (nodes, edges) for i in range(0, len(words), PER_LINE)]
        return "\n".join(map(" ".join, parts))

    def typed(self, text: str) -> Typed:
        """Nodes from 0 to the largest that is named."""
        x, found, largest = self.cells.flat, [], -1
        for word in text.split():
            node, edge = re.fullmatch("([0-9]{1,9})=(.)", word), re.fullmatch("([0-9]{1,9})-([0-9]{1,9})", word)
            ends = sorted(int(end) for end in (node.groups()[:1] if node else edge.groups() if edge else ()))
            colour = node[2] if node else "."
            if not ends or len({*ends}) < len(ends) or max(ends) >= self.seq_len or colour not in self.characters[1:]:
                wanted = f"type NODE={'|'.join(self.values)} or NODE-NODE, nodes from 0 to {self.seq_len - 1}"
                raise DatasetError(f"{word!r}: {wanted}")
            largest = max(largest, *ends)
            if edge:
                found.append(x[ends[0]] != x[ends[1]])
            elif colour != ".":
                found.append(x[ends[0]] == self.lowest + self.values.index(colour))
        if largest < 0 or len({*text.split()}) < len(text.split()):
            raise DatasetError("the text names no node, or says something twice; type NODE=. and NODE-NODE")
        return self.of_constraints(found, np.arange(self.seq_len) > largest)


FORMS = {form.form: form for form in (WithSigns, WithCages, WithRuns, WithEdges)}
