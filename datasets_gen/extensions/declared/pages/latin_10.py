"""Latin square completion 10×10: every symbol once in each row and column."""

from datasets_gen.extensions.declared import Declared, cp
from datasets_gen.structure import GridSymmetry


class Latin10(Declared):
    """Latin square completion 10×10: every digit once in each row and column."""

    name = "latin-10"
    grid, values, lowest = (10, 10), "0123456789", 0
    moves = GridSymmetry(1, 10, 1, 10, transpose=True, relabel=(2, 11))

    def always(self, x):
        """Require different digits in rows and columns."""
        return [cp.AllDifferent(line) for line in (*x, *x.T)]
