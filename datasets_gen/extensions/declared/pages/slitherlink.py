"""Slitherlink 5×5: one loop along the edges of a grid; a number counts the edges around its cell."""

import numpy as np

from datasets_gen.extensions.declared import Declared, Drawn, cp, one_loop
from datasets_gen.family import drawn_lines
from datasets_gen.layout import DatasetError


class Slitherlink(Declared):
    """Slitherlink 5×5: one loop along the edges of a grid; a number counts the edges around its cell."""

    name = "slitherlink"
    grid, values, lowest = (11, 11), "x#", 0  # points, edges, numbers in turn; an edge: outside, in the loop
    absent = np.indices(grid).sum(0) % 2 == 0  # cells that are not edges

    def always(self, x):
        """Require one loop."""
        return [one_loop(x == 1)]

    def puzzle(self, x, rng, fill):
        """Draw a loop of a third of all edges or more, and show some numbers."""
        while (answer := fill())[~self.absent].sum() < 20:
            pass
        faces = [(row, column) for row in range(1, 11, 2) for column in range(1, 11, 2)]
        numbers = [self.number(x, *face, self.around(answer, *face).sum()) for face in faces]
        return Drawn(answer, optional=numbers, absent=self.absent)

    def around(self, board, row, column):
        """Return the four edges of a cell."""
        return board[[row - 1, row, row, row + 1], [column, column - 1, column + 1, column]]

    def number(self, x, row, column, number):
        """Return the constraint on the number of loop edges around a cell."""
        return cp.sum(self.around(x, row, column)) == number

    def draw(self, tokens, question=None, relations=None):
        """Draw points as +, the numbers between them, and edges: . open, x outside the loop, - and | in it."""
        board = np.array(list(" " + self.characters[1:]))[tokens].reshape(self.grid)
        board[::2, ::2] = "+"
        board[::2][board[::2] == "#"], board[1::2][board[1::2] == "#"] = "-", "|"
        for each in self.instances_of(relations):
            board.flat[sum(each.cells) // 4] = str(each.numbers[0])
        return "\n".join(map("".join, board))

    def typed(self, text):
        """Parse such a drawing."""
        lines, constraints = [line.ljust(11) for line in drawn_lines(text)], []
        if [*map(len, lines)] != 11 * [11]:
            raise DatasetError("type 11 lines of 11 characters, as `show` prints")
        for (row, column), sign in np.ndenumerate([list(line) for line in lines]):
            kinds = ("+", ".x-"), (".x|", " .0123")  # by line and column
            if sign not in (kind := kinds[row % 2][column % 2]):
                raise DatasetError(f"{sign!r} in line {row + 1}, column {column + 1} is not one of {kind!r}")
            if sign.isdecimal():
                constraints.append(self.number(self.cells, row, column, int(sign)))
            elif sign in "x-|":
                constraints.append(self.cells[row, column] == int(sign != "x"))
        return self.of_constraints(constraints, self.absent)
