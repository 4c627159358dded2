"""Thermometers 6×6: digits grow along each thermometer."""

from itertools import pairwise

import numpy as np

from datasets_gen.extensions.declared import Declared, Drawn, cp, shapes


class Thermometers(Declared):
    """Thermometer Sudoku 6×6: a Sudoku whose digits grow from the bulb of each thermometer to its end."""

    name = "thermometers"
    grid, values, box_shape = (6, 6), "123456", (2, 3)

    def always(self, x):
        """Rows, columns and boxes."""
        return [cp.AllDifferent(unit) for unit in (*x, *x.T, *shapes.boxes(x, self.box_shape))]

    def puzzle(self, x, rng, fill):
        """Up to six thermometers of three or four cells that do not overlap, and digits in some cells."""
        answer, free, chains = fill(), np.ones((6, 6), bool), []
        for start in rng.permutation(36):
            path = [divmod(int(start), 6)]
            while len(path) < 4 and free[path[0]]:
                r, c = path[-1]
                near = [(r + a, c + b) for a in (-1, 0, 1) for b in (-1, 0, 1) if 0 <= r + a < 6 and 0 <= c + b < 6]
                higher = [cell for cell in near if free[cell] and answer[cell] > answer[r, c]]
                if not higher:
                    break
                path.append(min(higher, key=lambda cell: answer[cell]))
            if len(path) > 2 and len(chains) < 6:
                chains.append(path)
                free[tuple(zip(*path, strict=True))] = False
        rising = [[x[a] < x[b] for a, b in pairwise(path)] for path in chains]
        digits = [cell == digit for cell, digit in zip(x.flat, answer.flat, strict=True)]
        return Drawn(answer, shown=rising, optional=digits)
