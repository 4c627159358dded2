"""Windoku: a Sudoku with four windows more."""

from datasets_gen.extensions.declared import Declared, cp


class Windoku(Declared):
    """Windoku: a Sudoku in which each of four windows of 3×3 cells holds every digit, too."""

    name = "windoku"
    grid, values, box_shape, fewest = (9, 9), "123456789", (3, 3), 24

    def always(self, x):
        """Rows, columns, boxes and windows."""
        boxes = x.reshape(3, 3, 3, 3).swapaxes(1, 2).reshape(9, 9)
        windows = [x[r : r + 3, c : c + 3].ravel() for r in (1, 5) for c in (1, 5)]
        return [cp.AllDifferent(unit) for unit in (*x, *x.T, *boxes, *windows)]
