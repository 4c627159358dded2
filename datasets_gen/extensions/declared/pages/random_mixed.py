"""Random constraints over 18 cells of five values whose linear form has exponents or hidden booleans."""

import math
from itertools import pairwise

from datasets_gen.extensions.declared import Declared, cp
from datasets_gen.extensions.declared.kinds import of_kinds


class RandomMixed(Declared):
    """Random constraints over 18 cells of five values: products, maxima, counts of comparisons, alternatives."""

    name = "random-mixed"
    grid, values = (3, 6), "12345"
    fewest = 30

    def puzzle(self, x, rng, fill):
        """Draw constraints of three kinds over random cells that a random answer satisfies."""
        answer = rng.integers(1, 6, x.size)

        def product(some):
            chosen, digits = some(2, 3)
            return math.prod(chosen) == int(digits.prod())

        def highest(some):
            chosen, digits = some(2, 4)
            return cp.max(chosen) == int(digits.max())

        def lowest(some):
            chosen, digits = some(2, 4)
            return cp.min(chosen) == int(digits.min())

        def exceeded(some):
            (first, *others), (digit, *rest) = some(3, 5)
            return cp.sum([first > other for other in others]) == sum(int(digit > other) for other in rest)

        def rising(some):
            chosen, digits = some(3, 5)
            return cp.sum([a < b for a, b in pairwise(chosen)]) == int((digits[:-1] < digits[1:]).sum())

        def either(some):
            (a, b, c, d), (one, two, three, four) = some(4, 4)
            return (a < b) | (c < d) if one < two or three < four else None

        def together(some):
            (a, b, c, d), (one, two, three, four) = some(4, 4)
            return (a == b).implies(c < d) if one != two or three < four else None

        kinds = [product, highest, lowest, exceeded, rising, either, together]
        return of_kinds(x, rng, answer, kinds, 3)
