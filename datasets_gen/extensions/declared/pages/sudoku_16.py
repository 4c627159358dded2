"""Sudoku 16×16: each of 16 symbols once in each row, column and 4×4 box."""

from datasets_gen.extensions.declared import Declared, cp, shapes
from datasets_gen.structure import GridSymmetry


class Sudoku16(Declared):
    """Sudoku 16×16: each of 16 symbols once in each row, column and 4×4 box."""

    name = "sudoku-16"
    grid, values = (16, 16), "123456789ABCDEFG"
    moves = GridSymmetry(4, 4, 4, 4, transpose=True, relabel=(2, 17))
    fewest = 110  # with fewer clues, CP-SAT needs seconds for one puzzle
    box_shape = (4, 4)

    def always(self, x):
        """Require different symbols in rows, columns and boxes."""
        return [cp.AllDifferent(unit) for unit in (*x, *x.T, *shapes.boxes(x, self.box_shape))]
