"""Text forms of puzzles, as `show` prints them: signs between cells, maps of cages, clues of lines, graphs."""

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

PER_LINE = 10  # nodes or edges of a graph in one line


def labelled(text: str, *heads: str) -> list[str]:
    """Split a text into the board and the rest of each line `HEAD: …` below it, one for each of `heads`."""
    lines = list(filter(str.strip, drawn_lines(text)))
    board, below = lines[: -len(heads)], [line.partition(":") for line in lines[-len(heads) :]]
    if [head for head, _, _ in below] != list(heads) or any(":" in line for line in board):
        raise DatasetError(f"type {' and '.join(f'`{head}: …`' for head in heads)} below the board, once")
    return ["\n".join(board), *(tail for _, _, tail in below)]


class WithSigns(Declared):
    """Cells with a space, `<` or `>` between neighbours; lines of `^` (above < below) and `v` between rows.

    Below the board, a line `NAME NUMBER: CELL CELL` states each constraint that is no such sign.
    """

    form = "signs"
    reserved = "<>^v:"

    def draw(self, tokens: np.ndarray, question: np.ndarray | None = None, relations: np.ndarray | None = None) -> str:
        """Draw cells and signs in turn."""
        rows, columns = self.grid
        board = np.full((2 * rows, 2 * columns), " ")
        board[::2, ::2] = np.array(list(self.characters))[tokens].reshape(self.grid)
        lines = []
        for relation, numbers, cells in self.stated(relations):
            first = min(cells)
            row, column = divmod(first, columns)
            across = max(cells) == first + 1 and column + 1 < columns
            if relation.rule == ["<", "x0", "x1"] and relation.seen and (across or max(cells) == first + columns):
                board[2 * row + (not across), 2 * column + across] = ("<>" if across else "^v")[cells[0] > first]
            else:
                lines.append(shapes.line_of(relation.name, numbers, cells))
        return "\n".join([*("".join(line).rstrip() for line in board[:-1]), *lines])

    def typed(self, text: str) -> Typed:
        """Parse such a drawing, or rows of cells without signs."""
        stated = [each for line in text.split("\n") if ":" in line for each in self.instances_in(line, {})]
        text = "\n".join(line for line in text.split("\n") if ":" not in line)
        if not set(text) & set(self.reserved):
            return self.of_board(text, stated)
        (rows, columns), x = self.grid, self.cells.flat
        lines = [line.rstrip().ljust(2 * columns - 1) for line in drawn_lines(text)]
        if [len(line) for line in lines] != [2 * columns - 1] * (2 * rows - 1):
            raise DatasetError(f"type {2 * rows - 1} lines of at most {2 * columns - 1} characters, as `show` prints")
        board, signs = np.array([list(line) for line in lines]), []
        fitting = ("", "<>"), ("^v", "")  # by line and column
        for (row, column), sign in np.ndenumerate(board):
            if sign.isspace() or not (row % 2 or column % 2):  # no sign, or a cell
                continue
            if sign not in fitting[row % 2][column % 2]:
                where = f"line {row + 1}, column {column + 1}"
                raise DatasetError(f"{sign} in {where} is not between two cells, as < > in a row and ^ v in a column")
            first = row // 2 * columns + column // 2
            one, other = x[first], x[first + (columns if row % 2 else 1)]
            signs.append(one < other if sign in "<^" else other < one)
        return self.of_board("\n".join(map("".join, board[::2, ::2])), [*signs, *stated])


class WithCages(Declared):
    """A board, then a map with a letter for each cage; if cages have sums, lines of `A=12 B=7`.

    A dot in the map is a cell outside of cages.
    """

    form = "cages"
    reserved = "="

    def caged(self, x: Any, cages: list[Any], sums: Sequence[int]) -> list[Any]:
        """Return the constraints of cages, each an index of cells; the sum of a cage of one cell is its clue."""
        return [
            *(cp.AllDifferent(x[cage]) for cage in cages if x[cage].size > 1),
            *(cp.sum(x[cage]) == total for cage, total in zip(cages, sums, strict=False)),
        ]

    def draw(self, tokens: np.ndarray, question: np.ndarray | None = None, relations: np.ndarray | None = None) -> str:
        """Draw board, map and sums."""
        instances = self.instances_of(relations)
        letters = dict(zip(dict.fromkeys(each.ordered for each in instances), shapes.LETTERS, strict=False))
        sums = [f"{letters[each.ordered]}={each.numbers[0]}" for each in instances if each.numbers]
        lines = [" ".join(sums[start : start + 8]) for start in range(0, len(sums), 8)]
        board, marked = super(Declared, self).draw(tokens), self.on_board(shapes.lettered(letters, self.seq_len))
        return "\n".join([board, "", *map("".join, marked), *([""] if lines else []), *lines])

    def typed(self, text: str) -> Typed:
        """Parse board and map, or only the map."""
        lines = list(filter(str.strip, drawn_lines(text)))
        words = [word.partition("=") for line in lines if "=" in line for word in line.split()]
        sums = {name: whole(total, f"sum of cage {name}") for name, _, total in words}
        if len(sums) < len(words) or any(len(name) != 1 for name in sums):
            raise DatasetError("type LETTER=SUM, once for each cage")
        cells = [line for line in lines if "=" not in line]
        board, cages = cells[: -self.grid[0]], shapes.read_letters(cells[-self.grid[0] :], self.grid)
        if sums and sums.keys() != cages.keys():
            raise DatasetError(f"cage {min(sums.keys() ^ cages.keys())} has no cells or no sum")
        caged = self.caged(self.cells.flat, list(cages.values()), [sums[name] for name in cages] if sums else [])
        return self.of_board("\n".join(board), caged) if board else self.of_constraints(caged)


class WithRuns(Declared):
    """Rows, each followed by the lengths of its runs; then `columns: 1 2, 3, …`.

    An empty line has the run 0, a line without a clue has `?`.
    """

    form = "runs"

    def draw(self, tokens: np.ndarray, question: np.ndarray | None = None, relations: np.ndarray | None = None) -> str:
        """Draw board and runs."""
        runs = {each.cells: each.numbers for each in self.instances_of(relations) if each.rule == ["runs"]}
        cells = np.arange(self.seq_len).reshape(self.grid)
        of_lines = [runs.get(tuple(line.tolist()), "?") or (0,) for line in (*cells, *cells.T)]
        clues = [" ".join(map(str, clue)) for clue in of_lines]
        board = super(Declared, self).draw(tokens).split("\n")
        across = [f"{row}  {clue}" for row, clue in zip(board, clues, strict=False)]
        return "\n".join([*across, f"columns: {', '.join(clues[len(board) :])}"])

    def typed(self, text: str) -> Typed:
        """Parse board and runs."""
        (board, columns), x = labelled(text, "columns"), self.cells
        across = [line.split() for line in board.split("\n")]
        clues = [words[1:] for words in across] + [words.split() for words in columns.split(",")]
        runs = [None if clue == ["?"] else [whole(word, "length of a run") for word in clue] for clue in clues]
        if [len(across), len(runs)] != [len(x), len(x) + len(x.T)]:
            raise DatasetError(
                f"{len(across)} rows and {len(runs) - len(across)} columns; type {len(x)} and {len(x.T)}"
            )
        known = [(cells, line) for cells, line in zip((*x, *x.T), runs, strict=True) if line is not None]
        if any(not line or (0 in line and len(line) > 1) for _, line in known):
            wanted = "type lengths from 1, only 0 for no run, or only ? for a line without a clue"
            raise DatasetError(f"a line has no lengths, or 0 with others; {wanted}")
        lines = [Runs(cells, [n for n in line if n]) for cells, line in known]
        return self.of_board("\n".join(words[0] for words in across), lines)


class WithEdges(Declared):
    """Words in any order: `3=R` for a node of a known colour, `12=.` for an open one, `3-12` for an edge."""

    form = "edges"
    reserved = ""

    def draw(self, tokens: np.ndarray, question: np.ndarray | None = None, relations: np.ndarray | None = None) -> str:
        """Draw nodes, then edges."""
        asked = tokens if question is None else question
        nodes = [f"{node}={self.characters[tokens[node]]}" for node in np.flatnonzero(asked != ABSENT)]
        edges = ["-".join(map(str, each.cells)) for each in self.instances_of(relations)]
        parts = [words[i : i + PER_LINE] for words in (nodes, edges) for i in range(0, len(words), PER_LINE)]
        return "\n".join(map(" ".join, parts))

    def typed(self, text: str) -> Typed:
        """Parse a graph; its nodes are 0 to the largest number in the text."""
        x, constraints, parts = self.cells.flat, [], list[tuple[tuple[int, ...], str]]()
        for word in text.split():
            node, edge = re.fullmatch("([0-9]{1,9})=(.)", word), re.fullmatch("([0-9]{1,9})-([0-9]{1,9})", word)
            ends = sorted(int(end) for end in (node.groups()[:1] if node else edge.groups() if edge else ()))
            colour = node[2] if node else "."
            if not ends or len({*ends}) < len(ends) or max(ends) >= self.seq_len or colour not in self.characters[1:]:
                wanted = f"type NODE={'|'.join(self.values)} or NODE-NODE, nodes from 0 to {self.seq_len - 1}"
                raise DatasetError(f"{word!r}: {wanted}")
            parts.append((tuple(ends), colour))
            if edge:
                constraints.append(x[ends[0]] != x[ends[1]])
            elif colour != ".":
                constraints.append(x[ends[0]] == self.lowest + self.values.index(colour))
        if not parts or len({*parts}) < len(parts):
            raise DatasetError("the text has no nodes, or a word twice; type NODE=. and NODE-NODE")
        largest = max(max(ends) for ends, _ in parts)
        return self.of_constraints(constraints, np.arange(self.seq_len) > largest)


FORMS = {form.form: form for form in (WithSigns, WithCages, WithRuns, WithEdges)}
