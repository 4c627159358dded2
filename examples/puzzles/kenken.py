"""KenKen 4×4: cages with their sum or product."""

import math

from datasets_gen.extensions.declared import Declared, Drawn, cp, shapes


class KenKen(Declared):
    """KenKen 4×4: a Latin square with the sum or the product of each cage."""

    name = "kenken"
    grid, values = (4, 4), "1234"

    def always(self, x):
        """Rows and columns."""
        return [cp.AllDifferent(line) for line in (*x, *x.T)]

    def puzzle(self, x, rng, fill):
        """Cages of one to three cells, and digits where these leave several solutions."""
        answer, cages, clues = fill(), shapes.cages(self.grid, rng, sizes=(1, 2, 3)), []
        for cage in range(cages.max() + 1):
            cells, digits = [*x[cages == cage]], answer[cages == cage]
            if len(cells) == 1:
                clues.append(cells[0] == int(digits[0]))
            elif rng.random() < 0.5:
                clues.append(cp.sum(cells) == int(digits.sum()))
            else:
                clues.append(math.prod(cells) == int(digits.prod()))
        given = [cell == digit for cell, digit in zip(x.flat, answer.flat, strict=True)]
        return Drawn(answer, shown=clues, optional=given)
