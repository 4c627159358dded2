"""Diagonal Sudoku 9×9: every digit once in each row, column, box and long diagonal."""

from datasets_gen.extensions.declared import Declared, cp, shapes
from datasets_gen.structure import GridSymmetry


class SudokuDiagonal(Declared):
    """Diagonal Sudoku 9×9: every digit once in each row, column, box and long diagonal."""

    name = "sudoku-diagonal"
    grid, values = (9, 9), "123456789"
    moves = GridSymmetry(1, 9, 1, 9, transpose=False, relabel=(2, 10), turns=True)
    box_shape = (3, 3)
    fewest = 24  # with --clues 0 about 18 remain, and CP-SAT takes hundreds of branches

    def always(self, x):
        """Require different digits in rows, columns, boxes and the two diagonals."""
        units = [*x, *x.T, *shapes.boxes(x, self.box_shape), x.diagonal(), x[::-1].diagonal()]
        return [cp.AllDifferent(unit) for unit in units]
