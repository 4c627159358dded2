"""Puzzles as a person types them: signs between cells, maps of cages, clues of lines, edges of a graph."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from datasets_gen.extensions.declared import shapes
from datasets_gen.extensions.declared.expressions import Runs
from datasets_gen.extensions.declared.lazily import cp
from datasets_gen.extensions.declared.puzzle import ABSENT, Declared, Typed, whole
from datasets_gen.family import drawn_lines
from datasets_gen.layout import DatasetError

LETTERS = "".join(filter(str.isalpha, map(chr, range(0x250))))  # of cages: A to Z, a to z, then with accents
PER_LINE = 10  # nodes or edges of a graph


def labelled(text: str, *heads: str) -> tuple[list[str], dict[str, str]]:
    """The lines of a board, and what stands behind each of the heads and its colon.

    Raises:
        DatasetError: a line with another head, a head twice, or a head that is missing.
    """
    board: list[str] = []
    found: dict[str, str] = {}
    for line in filter(str.strip, drawn_lines(text)):
        head, colon, tail = line.partition(":")
        if not colon:
            board.append(line)
        elif head.strip() in heads and head.strip() not in found:
            found[head.strip()] = tail
        else:
            raise DatasetError(f"{line!r}: lines with a colon begin with {' or '.join(heads)}, and each stands once")
    if missing := [head for head in heads if head not in found]:
        raise DatasetError(f"no line begins with `{missing[0]}:`; type it below the board")
    return board, found


class WithSigns(Declared):
    """Rows with `<` and `>` between neighbours, and between rows lines of `^` (above < below) and `v`.

    Spaces in a row are passed over; a sign below a row stands under the cell's character.
    """

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
            sign = "<>" if beside else "^v"
            board[2 * row + (not beside), 2 * column + beside] = sign[low > high]
        return "\n".join("".join(line).rstrip() for line in board[:-1])

    def typed(self, text: str) -> Typed:
        """Digits and signs."""
        if "\t" in text:
            raise DatasetError("a tab; type spaces, for a sign stands under its cell")
        columns, x = self.grid[1], self.cells.flat
        rows: list[str] = []
        places: list[int] = []  # of the cells of the last row, in its line
        signs: dict[tuple[int, int], bool] = {}  # of two cells: is the first one less?
        for line in filter(str.strip, drawn_lines(text)):
            if across := not set(line) <= set("^v "):
                places = [place for place, character in enumerate(line) if character not in "<> "]
                rows.append("".join(line[place] for place in places))
            for place, sign in enumerate(line):
                if sign not in ("<>" if across else "^v"):
                    continue
                if across:
                    before = sum(cell < place for cell in places)
                    if not 0 < before < len(places):
                        raise DatasetError(f"{line!r}: {sign} stands between no two cells")
                elif place in places:
                    before = places.index(place) + 1
                else:
                    raise DatasetError(f"{line!r}: {sign} stands under no cell of the row above")
                cell = (len(rows) - 1) * columns + before - 1
                pair = cell, cell + (1 if across else columns)
                if pair in signs:
                    raise DatasetError(f"{line!r}: {sign} is the second sign between two cells")
                signs[pair] = sign in "<^"
        clues = self.clues("\n".join(rows))
        if signs and len(rows) != self.grid[0]:
            raise DatasetError(f"{len(rows)} lines of cells; with signs, type {self.grid[0]} lines of {columns} cells")
        if any(high >= self.seq_len for _, high in signs):
            raise DatasetError("a sign stands below the last row")
        return self.of_constraints([*clues, *(x[a] < x[b] if less else x[b] < x[a] for (a, b), less in signs.items())])


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
        cages: dict[tuple[int, ...], str] = {}
        sums = []
        for each in self.own(relations):
            letter = cages.setdefault(each.ordered, LETTERS[len(cages)])
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
        lines: list[str] = []
        sums: dict[str, int] = {}
        for line in filter(str.strip, drawn_lines(text)):
            if "=" not in line:
                lines.append(line)
                continue
            for word in re.sub(r"\s*=\s*", "=", line).split():
                name, _, total = word.partition("=")
                if len(name) != 1:
                    raise DatasetError(f"{word!r}: type LETTER=SUM for each cage")
                if name in sums:
                    raise DatasetError(f"cage {name} has two sums, {sums[name]} and {total}")
                sums[name] = whole(total, f"sum of cage {name}")
        rows, columns = self.grid
        if len(lines) not in (rows, 2 * rows):
            raise DatasetError(f"{len(lines)} lines; type {rows} of the board, and as many of a map of the cages")
        marked = ["".join(line.split()) for line in lines[-rows:]]
        if wrong := next((row for row in marked if len(row) != columns), None):
            raise DatasetError(f"{wrong!r} in the map of the cages has {len(wrong)} cells; type {columns}")
        cages: dict[str, list[int]] = {}
        for cell, name in enumerate("".join(marked)):
            if name != ".":
                cages.setdefault(name, []).append(cell)
        for name, cells in cages.items():
            if not shapes.connected(set(cells), self.grid):
                raise DatasetError(f"cage {name} is in two places; give each cage a letter of its own")
        if sums and (unknown := sorted(sums.keys() ^ cages.keys())):
            raise DatasetError(f"cage {unknown[0]} has {'no cell' if unknown[0] in sums else 'no sum'}")
        caged = self.caged(self.cells.flat, list(cages.values()), [sums[name] for name in cages] if sums else [])
        return self.of_constraints([*(self.clues("\n".join(lines[:-rows])) if lines[rows:] else []), *caged])


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
        across, found = labelled(text, "columns")
        down, (rows, columns) = found["columns"].split(","), self.grid
        if (len(across), len(down)) != (rows, columns):
            wanted = f"type {rows} lines, then columns: 1 2, 3, … with {columns} parts"
            raise DatasetError(f"{len(across)} rows and {len(down)} columns of runs; {wanted}")
        board, clues = [], []
        for words in map(str.split, across):
            shown = len(words) > 1 and (len(words[0]) == columns or not words[0].isdecimal())
            board.append(words[0] if shown else "." * columns)
            clues.append(words[shown:])
        clues += map(str.split, down)
        runs = [[whole(word, "length of a run") for word in clue] for clue in clues]
        for line, lengths in enumerate(runs):
            if not lengths or (0 in lengths and len(lengths) > 1):
                where = f"row {line + 1}" if line < rows else f"column {line - rows + 1}"
                raise DatasetError(f"{where} has the runs {lengths}; type lengths from 1, or 0 alone for an empty line")
        pairs = zip(self.lines(self.cells), ([each for each in line if each] for line in runs), strict=True)
        return self.of_constraints([*self.clues("\n".join(board)), *(Runs(cells, lengths) for cells, lengths in pairs)])


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
        x, found, named = self.cells.flat, [], set[tuple[int, ...]]()
        for word in text.split():
            node, edge = re.fullmatch("([0-9]{1,9})=(.)", word), re.fullmatch("([0-9]{1,9})-([0-9]{1,9})", word)
            ends = tuple(sorted({int(part) for part in (node.groups()[:1] if node else edge.groups() if edge else ())}))
            if (
                len(ends) < (1 if node else 2)
                or max(ends) >= self.seq_len
                or (node and node[2] not in self.characters[1:])
            ):
                wanted = f"type NODE={'|'.join(self.values)} or NODE-NODE, nodes from 0 to {self.seq_len - 1}"
                raise DatasetError(f"{word!r}: {wanted}")
            if ends in named:
                raise DatasetError(f"{word!r}: this {'node' if node else 'edge'} stands twice")
            named.add(ends)
            if node and node[2] in self.values:
                found.append(x[ends[0]] == self.lowest + self.values.index(node[2]))
            elif edge:
                found.append(x[ends[0]] != x[ends[1]])
        if not named:
            raise DatasetError("the text names no node; type NODE=. and NODE-NODE")
        largest = max(map(max, named))
        return self.of_constraints(found, np.arange(self.seq_len) > largest)


FORMS = {form.form: form for form in (WithSigns, WithCages, WithRuns, WithEdges)}
