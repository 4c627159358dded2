"""Anti-king Sudoku 6×6: no digit touches itself."""

from datasets_gen.extensions.declared import Declared, cp


class AntiKing(Declared):
    """Anti-king Sudoku 6×6: cells that touch at a corner differ, too."""

    name = "anti-king"
    grid, values, box_shape = (6, 6), "123456", (2, 3)

    def always(self, x):
        """Rows, columns, boxes and the steps of a chess king."""
        boxes = x.reshape(3, 2, 2, 3).swapaxes(1, 2).reshape(6, 6)
        units = [cp.AllDifferent(unit) for unit in (*x, *x.T, *boxes)]
        steps = [(x[:-1, :-1], x[1:, 1:]), (x[:-1, 1:], x[1:, :-1])]
        return [*units, *(a != b for one, other in steps for a, b in zip(one.flat, other.flat, strict=True))]
