"""Light Up 10×10: bulbs light every free cell, never one another; numbered walls count adjacent bulbs."""

import re

import numpy as np

from datasets_gen.extensions.declared import Declared, Drawn, cp, shapes

WALL, BULB = 2, 1


class LightUp(Declared):
    """Light Up 10×10: bulbs light every free cell, never one another; numbered walls count adjacent bulbs."""

    name = "light-up"
    grid, values, lowest = (10, 10), "-*#", 0  # lit, bulb, wall
    shown_only = "#"

    def puzzle(self, x, rng, fill):
        """Show walls at a fifth to a third of the cells, and the numbers that are needed."""
        walls = rng.random(self.grid) < 0.2 + 0.13 * rng.random()
        lines = self.lines(x, walls)
        answer = fill(lines)
        adjacent = [(wall, shapes.neighbours(self.grid, wall)) for wall in np.flatnonzero(walls).tolist()]
        numbers = [(wall, int((answer.flat[cells] == BULB).sum())) for wall, cells in adjacent]
        return Drawn(answer, shown=lines, optional=[self.number(x, wall, n) for wall, n in numbers])

    def number(self, x, wall, number):
        """Return the constraint on the number of bulbs adjacent to a wall."""
        return cp.Count(x.flat[shapes.neighbours(self.grid, wall)], BULB) == number

    def lines(self, x, walls):
        """Return walls, at most one bulb in each line of free cells, at least one in the two lines through a cell."""
        across, down = shapes.segments(~walls)
        segments = across + down
        through = [sorted({c for line in segments if cell in line for c in line}) for cell in np.flatnonzero(~walls)]
        return [
            *(cell == WALL for cell in x[walls]),
            *(cp.Count(x.flat[line], BULB) <= 1 for line in segments if len(line) > 1),
            *(cp.Count(x.flat[cells], BULB) >= 1 for cells in through),
        ]

    def draw(self, tokens, question=None, relations=None):
        """Draw the board, with the numbers in their walls."""
        board = list(super().draw(tokens))
        walls = {tuple(shapes.neighbours(self.grid, cell)): cell for cell in range(self.seq_len)}
        for each in self.instances_of(relations):
            if each.rule[0] == "==":
                cell = walls[each.ordered]
                board[cell + cell // self.grid[1]] = str(each.numbers[0])  # a line has a line end
        return "".join(board)

    def typed(self, text):
        """Parse a board of . for free cells, # for walls and 0 to 4 for walls with a number."""
        clues = self.clues(re.sub("[0-4]", "#", text))
        board = "".join(text.split())
        walls = np.array([cell in "#01234" for cell in board]).reshape(self.grid)
        numbers = [self.number(self.cells, wall, int(cell)) for wall, cell in enumerate(board) if cell.isdecimal()]
        return self.of_constraints([*clues, *self.lines(self.cells, walls), *numbers])
