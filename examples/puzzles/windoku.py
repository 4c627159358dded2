"""Windoku: a Sudoku with four windows more."""

from datasets_gen.extensions.declared import Declared, cp, shapes


class Windoku(Declared):
    """Windoku: a Sudoku in which each of four windows of 3×3 cells holds every digit, too."""

    name = "windoku"
    grid, values, box_shape, fewest = (9, 9), "123456789", (3, 3), 24

    def always(self, x):
        """Rows, columns, boxes and windows."""
        windows = [x[r : r + 3, c : c + 3].ravel() for r in (1, 5) for c in (1, 5)]
        return [cp.AllDifferent(unit) for unit in (*x, *x.T, *shapes.boxes(x, self.box_shape), *windows)]
