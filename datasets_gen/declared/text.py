"""Puzzles as a person types them: signs between cells, maps of cages, clues of lines, edges of a graph."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from typing import Any

import numpy as np

from datasets_gen.declared.expressions import Runs
from datasets_gen.declared.lazily import cp
from datasets_gen.declared.puzzle import ABSENT, Declared, Typed
from datasets_gen.layout import DatasetError

LETTERS = string.ascii_uppercase + string.ascii_lowercase
PER_LINE = 10  # nodes or edges of a graph


class WithSigns(Declared):
    """Rows with `<` and `>` between neighbours, and between rows lines of `^` (above < below) and `v`.

    Spaces in a row are passed over; a sign below a row stands under the cell's character.
    """

    form = "signs"

    def draw(self, tokens: np.ndarray, question: np.ndarray | None = None, relations: np.ndarray | None = None) -> str:
        """Every second character is a cell."""
        rows, columns = self.grid
        board = np.full((2 * rows, 2 * columns), " ")
        board[::2, ::2] = np.array(list(self.characters))[tokens].reshape(self.grid)
        for low, high in (each.cells for each in self.own(relations)):
            row, column = divmod(min(low, high), columns)
            beside = abs(low - high) == 1
            sign = "<>" if beside else "^v"
            board[2 * row + (not beside), 2 * column + beside] = sign[low > high]
        return "\n".join("".join(line).rstrip() for line in board[:-1])

    def typed(self, text: str) -> Typed:
        """Digits and signs."""
        columns, board, signs = self.grid[1], "", []
        places: list[int] = []  # of the cells of the last row, in its line
        for line in filter(str.strip, text.splitlines()):
            if set(line) <= set("^v "):
                for place in (place for place, sign in enumerate(line) if sign != " "):
                    if place not in places:
                        raise DatasetError(f"{line!r}: {line[place]} stands under no cell of the row above")
                    cell = len(board) - len(places) + places.index(place)
                    signs.append((cell, cell + columns, line[place] == "^"))
                continue
            places = []
            for place, character in enumerate(line):
                if character in "<>":
                    cell = len(board) - 1
                    if not places or len(places) == columns:
                        raise DatasetError(f"{line!r}: {character} stands between no two cells")
                    signs.append((cell, cell + 1, character == "<"))
                elif character != " ":
                    places.append(place)
                    board += character
        clues, x = self.clues(board), self.cells.flat
        outside = next((high for _, high, _ in signs if high >= self.seq_len), None)
        if outside is not None:
            raise DatasetError("a sign stands below the last row")
        return self.of_constraints([*clues, *(x[a] < x[b] if less else x[b] < x[a] for a, b, less in signs)])


class WithCages(Declared):
    """A board, then the same board with a letter for each cage; where cages have sums, lines of `A=12 B=7`."""

    form = "cages"

    def caged(self, x: Any, cages: list[Any], sums: Sequence[int]) -> list[Any]:
        """The constraints of cages, each an index of cells."""
        return [
            *(cp.AllDifferent(x[cage]) for cage in cages),
            *(cp.sum(x[cage]) == total for cage, total in zip(cages, sums, strict=False)),
        ]

    def draw(self, tokens: np.ndarray, question: np.ndarray | None = None, relations: np.ndarray | None = None) -> str:
        """Board, map and sums."""
        cages: dict[tuple[int, ...], str] = {}
        sums = []
        for each in self.own(relations):
            letter = cages.setdefault(each.ordered, LETTERS[len(cages) % len(LETTERS)])
            sums += [f"{letter}={each.numbers[0]}"] if each.numbers else []
        letters = np.full(self.seq_len, ".")
        for cage, letter in cages.items():
            letters[list(cage)] = letter
        board = super(Declared, self).draw(tokens)
        marked = "\n".join(map("".join, letters.reshape(self.grid)))
        lines = [" ".join(sums[start : start + 8]) for start in range(0, len(sums), 8)]
        return "\n".join([board, "", marked, *([""] if lines else []), *lines])

    def typed(self, text: str) -> Typed:
        """Board and map, or the map alone."""
        lines = [line for line in text.splitlines() if line.strip() and "=" not in line]
        if len(lines) not in (self.grid[0], 2 * self.grid[0]):
            raise DatasetError(
                f"{len(lines)} lines; type {self.grid[0]} of the board, and as many of a map of the cages"
            )
        marked = "".join("".join(lines[-self.grid[0] :]).split())
        if len(marked) != self.seq_len:
            raise DatasetError(f"the map of the cages has {len(marked)} cells, the board {self.seq_len}")
        board = "\n".join(lines[: -self.grid[0]])
        sums = dict(re.findall(r"(\w)\s*=\s*(\d+)", text))
        names = sorted(set(marked))
        unknown = sorted(sums.keys() ^ set(names)) if sums else []
        if unknown:
            raise DatasetError(f"cage {unknown[0]} has {'no cell' if unknown[0] in sums else 'no sum'}")
        cages = [[cell for cell, letter in enumerate(marked) if letter == name] for name in names]
        totals = [int(sums[name]) for name in names] if sums else []
        return self.of_constraints([*(self.clues(board) if board else []), *self.caged(self.cells.flat, cages, totals)])


class WithRuns(Declared):
    """Rows, each followed by the lengths of its runs; then `columns: 1 2, 3, …`. An empty line has the run 0."""

    form = "runs"

    def lines(self, x: Any) -> list[Any]:
        """The rows, then the columns."""
        return [*x, *x.T]

    def draw(self, tokens: np.ndarray, question: np.ndarray | None = None, relations: np.ndarray | None = None) -> str:
        """Board and runs."""
        runs = {each.cells: each.numbers for each in self.own(relations)}
        lines = self.lines(np.arange(self.seq_len).reshape(self.grid))
        told = [" ".join(map(str, runs.get(tuple(line.tolist())) or (0,))) for line in lines]
        board = super(Declared, self).draw(tokens).split("\n")
        across = [f"{row}  {clue}" for row, clue in zip(board, told, strict=False)]
        return "\n".join([*across, f"columns: {', '.join(told[len(board) :])}"])

    def typed(self, text: str) -> Typed:
        """Board and runs; a row may be its runs alone."""
        lines = [line for line in text.splitlines() if line.strip()]
        across = [line for line in lines if ":" not in line]
        down = [part for line in lines if ":" in line for part in line.partition(":")[2].split(",")]
        rows, columns = self.grid
        if (len(across), len(down)) != (rows, columns):
            wanted = f"type {rows} lines, then columns: 1 2, 3, … with {columns} parts"
            raise DatasetError(f"{len(across)} rows and {len(down)} columns of runs; {wanted}")
        board, clues = "", []
        for line in across:
            cells, *numbers = line.split() if not line.split()[0].isdecimal() else ["." * columns, *line.split()]
            board += cells
            clues.append(numbers)
        clues += [part.split() for part in down]
        wrong = next((word for clue in clues for word in clue if not word.isdecimal()), None)
        if wrong is not None:
            raise DatasetError(f"{wrong!r} is no length of a run")
        runs = [[int(word) for word in clue if int(word)] for clue in clues]
        pairs = zip(self.lines(self.cells), runs, strict=True)
        return self.of_constraints([*self.clues(board), *(Runs(cells, numbers) for cells, numbers in pairs)])


class WithEdges(Declared):
    """Words in any order: `3=R` for a node of a known colour, `12=.` for an open one, `3-12` for an edge."""

    form = "edges"

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
            node, edge = re.fullmatch(r"(\d+)=(.)", word), re.fullmatch(r"(\d+)-(\d+)", word)
            ends = [int(part) for part in (node.groups()[:1] if node else edge.groups() if edge else ())]
            if (
                len(set(ends)) < (1 if node else 2)
                or max(ends) >= self.seq_len
                or (node and node[2] not in self.characters[1:])
            ):
                wanted = f"type NODE={'|'.join(self.values)} or NODE-NODE, nodes from 0 to {self.seq_len - 1}"
                raise DatasetError(f"{word!r}: {wanted}")
            largest = max(largest, *ends)
            if node and node[2] in self.values:
                found.append(x[ends[0]] == self.lowest + self.values.index(node[2]))
            elif edge:
                found.append(x[ends[0]] != x[ends[1]])
        return self.of_constraints(found, np.arange(self.seq_len) > largest)


FORMS = {form.form: form for form in (WithSigns, WithCages, WithRuns, WithEdges)}
