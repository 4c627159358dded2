"""Anti-king Sudoku 6×6: no digit touches itself."""

from datasets_gen.extensions.declared import Declared, cp, shapes


class AntiKing(Declared):
    """Anti-king Sudoku 6×6: cells that touch at a corner differ, too."""

    name = "anti-king"
    grid, values, box_shape = (6, 6), "123456", (2, 3)

    def always(self, x):
        """Rows, columns, boxes and the steps of a chess king."""
        units = [cp.AllDifferent(unit) for unit in (*x, *x.T, *shapes.boxes(x, self.box_shape))]
        steps = [(x[:-1, :-1], x[1:, 1:]), (x[:-1, 1:], x[1:, :-1])]
        return [*units, *(a != b for one, other in steps for a, b in zip(one.flat, other.flat, strict=True))]
