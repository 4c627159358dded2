"""Random constraints over 24 cells of six values: for networks that learn constraints rather than puzzles."""

import numpy as np

from datasets_gen.extensions.declared import Declared, cp
from datasets_gen.extensions.declared.kinds import of_kinds

KINDS = 3  # of constraints in one puzzle


class RandomValues(Declared):
    """Random constraints over 24 cells of six values: sums, comparisons, counts, distances, groups that differ."""

    name = "random-values"
    grid, values = (4, 6), "123456"
    fewest = 36

    def puzzle(self, x, rng, fill):
        """Draw constraints of a few kinds over random cells that a random answer satisfies."""
        answer = rng.integers(1, 7, x.size)

        def total(some):
            chosen, digits = some(2, 5)
            return cp.sum(chosen) == int(digits.sum())

        def bound(some):
            chosen, digits = some(2, 4)
            lower, most = rng.random() < 0.5, int(digits.sum())
            return cp.sum(chosen) >= most - 1 if lower else cp.sum(chosen) <= most + 1

        def compared(some):
            (a, b), (low, high) = some(2, 2)
            return a < b if low < high else a > b if low > high else a == b

        def differ(some):
            chosen, digits = some(3, 6)
            first = [chosen[i] for i in np.unique(digits, return_index=True)[1]]
            return cp.AllDifferent(first) if len(first) > 1 else None

        def unequal(some):
            (a, b), (one, other) = some(2, 2)
            return a != b if one != other else None

        def counted(some):
            chosen, digits = some(3, 7)
            value = int(rng.integers(1, 7))
            return cp.Count(chosen, value) == int((digits == value).sum())

        def distance(some):
            (a, b), (one, other) = some(2, 2)
            return abs(a - b) == abs(int(one - other))

        def weighted(some):
            (a, b, c), digits = some(3, 3)
            return a + 2 * b - c <= int(digits @ [1, 2, -1])

        kinds = [total, bound, compared, differ, unequal, counted, distance, weighted]
        return of_kinds(x, rng, answer, kinds, KINDS)
