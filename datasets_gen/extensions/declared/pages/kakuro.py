"""Kakuro 8×8: runs of different digits with their sums."""

import numpy as np

from datasets_gen.extensions.declared import Declared, Drawn, cp, labelled, shapes
from datasets_gen.extensions.declared.puzzle import whole
from datasets_gen.layout import DatasetError


class Kakuro(Declared):
    """Kakuro 8×8: different digits in every run of cells between walls, with the sum of each run."""

    name = "kakuro"
    grid, values = (8, 8), "123456789#"
    shown_only = "#"

    def puzzle(self, x, rng, fill):
        """Show walls without runs of one cell, all sums, and digits if these leave several solutions."""
        walls = shapes.walls(self.grid, rng, 0.4, shortest=2)
        answer = fill(self.runs(x, walls, ()))
        across, down = shapes.segments(~walls)
        sums = [int(answer.flat[run].sum()) for run in across + down]
        digits = [cell == value for cell, value in zip(x[~walls], answer[~walls], strict=True)]
        return Drawn(answer, shown=self.runs(x, walls, sums), optional=digits)

    def runs(self, x, walls, sums):
        """Return walls, and runs of different digits with their sums: rows, then columns."""
        across, down = shapes.segments(~walls)
        runs = [x.flat[run] for run in across + down]
        totals = [cp.sum(run) == total for run, total in zip(runs, sums, strict=False)]
        return [*(cell == 10 for cell in x[walls]), *map(cp.AllDifferent, runs), *totals]

    def draw(self, tokens, question=None, relations=None):
        """Draw the board, then the sums of the runs in rows and in columns."""
        board = super().draw(tokens)
        sums = {each.ordered: each.numbers[0] for each in self.instances_of(relations) if each.numbers}
        lines = shapes.segments(np.array([list(line) for line in board.split()]) != "#")
        totals = [" ".join(str(sums.get(tuple(run), "?")) for run in runs) for runs in lines]
        return f"{board}\nrows: {totals[0]}\ncolumns: {totals[1]}"

    def typed(self, text):
        """Parse a board of . and #, and below it the sums in reading order: `rows: 12 7 …` and `columns: …`."""
        board, *below = labelled(text, "rows", "columns")
        clues = self.clues(board)
        walls = np.array(list("".join(board.split()))).reshape(self.grid) == "#"
        sums = [[whole(word, "sum") for word in words.split()] for words in below]
        if list(map(len, sums)) != list(map(len, runs := shapes.segments(~walls))):
            raise DatasetError(
                f"the board has {len(runs[0])} runs in rows and {len(runs[1])} in columns; type their sums"
            )
        return self.of_constraints([*clues, *self.runs(self.cells, walls, [*sums[0], *sums[1]])])
