"""Mines 6×6: numbers count the mines around them."""

import numpy as np

from datasets_gen.extensions.declared import Declared, Drawn, cp


class Mines(Declared):
    """Mines 6×6: a shown cell has no mine, and its number counts the mines among the cells around it."""

    name = "mines"
    grid, values, lowest = (6, 6), "-*", 0

    def puzzle(self, x, rng, fill):
        """Nine mines or so, and numbers in some cells without one."""
        answer = (rng.random((6, 6)) < 0.25).astype(int)
        clues = []
        for r, c in np.argwhere(answer == 0):
            around = slice(max(r - 1, 0), r + 2), slice(max(c - 1, 0), c + 2)
            near = [cell for cell in x[around].flat if cell is not x[r, c]]
            clues.append([x[r, c] == 0, cp.sum(near) == int(answer[around].sum())])
        return Drawn(answer, optional=clues)
