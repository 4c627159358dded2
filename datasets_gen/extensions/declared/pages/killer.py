"""Killer Sudoku 6×6: cages of different digits with their sums."""

from datasets_gen.extensions.declared import Drawn, WithCages, cp, shapes


class Killer(WithCages):
    """Killer Sudoku 6×6: a Latin square with 2×3 boxes and cages of different digits with their sums."""

    name = "killer"
    grid, values = (6, 6), "123456"
    box_shape = (2, 3)

    def always(self, x):
        """Require different digits in rows, columns and boxes."""
        return [cp.AllDifferent(unit) for unit in (*x, *x.T, *shapes.boxes(x, self.box_shape))]

    def puzzle(self, x, rng, fill):
        """Show cages of two to four cells, and digits if these leave several solutions."""
        cages = shapes.cages(self.grid, rng, sizes=(2, 3, 4))
        cages = [cages == cage for cage in range(cages.max() + 1)]
        answer = fill(self.caged(x, cages, ()))
        caged = self.caged(x, cages, [int(answer[cage].sum()) for cage in cages])
        digits = [cell == value for cell, value in zip(x.flat, answer.flat, strict=True)]
        return Drawn(answer, shown=caged, optional=digits)
