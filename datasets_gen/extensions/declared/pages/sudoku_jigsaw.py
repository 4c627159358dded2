"""Jigsaw Sudoku 9×9: nine connected regions, different in each puzzle, replace the boxes."""

import numpy as np

from datasets_gen.extensions.declared import Drawn, WithCages, cp, shapes


class SudokuJigsaw(WithCages):
    """Jigsaw Sudoku 9×9: nine connected regions, different in each puzzle, replace the boxes."""

    name = "sudoku-jigsaw"
    grid, values = (9, 9), "123456789"
    fewest = 24  # with --clues 0 about 17 remain, and CP-SAT takes hundreds of branches

    def always(self, x):
        """Require different digits in rows and columns."""
        return [cp.AllDifferent(line) for line in (*x, *x.T)]

    def puzzle(self, x, rng, fill):
        """Show regions, grown from boxes by exchanging cells at their borders, and digits in some cells."""
        row, column = np.indices(self.grid)
        regions = shapes.exchanged(row // 3 * 3 + column // 3, rng, 200)
        regions = self.caged(x, [regions == region for region in range(9)], ())
        answer = fill(regions)
        digits = [cell == value for cell, value in zip(x.flat, answer.flat, strict=True)]
        return Drawn(answer, shown=regions, optional=digits)
