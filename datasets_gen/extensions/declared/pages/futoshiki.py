"""Futoshiki 7×7: a Latin square with signs between neighbours."""

from datasets_gen.extensions.declared import Drawn, WithSigns, cp


class Futoshiki(WithSigns):
    """Futoshiki 7×7: a Latin square with signs between neighbours."""

    name = "futoshiki"
    grid, values = (7, 7), "1234567"

    def always(self, x):
        """Require every digit once in each row and column."""
        return [cp.AllDifferent(line) for line in (*x, *x.T)]

    def puzzle(self, x, rng, fill):
        """Show signs between some neighbours, and digits in some cells."""
        answer = fill()
        clues = [cell == value for cell, value in zip(x.flat, answer.flat, strict=True)]
        for cells, values in ((x, answer), (x.T, answer.T)):  # rows, then columns
            for line, digits in zip(cells, values, strict=True):
                pairs = zip(line, line[1:], digits, digits[1:], strict=False)
                clues += [a < b if low < high else b < a for a, b, low, high in pairs]
        return Drawn(answer, optional=clues)
