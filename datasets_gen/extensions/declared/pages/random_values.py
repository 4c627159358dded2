"""Random constraints over 24 cells of six values: for networks that learn constraints rather than puzzles."""

import numpy as np

from datasets_gen.extensions.declared import Declared, Drawn, cp

KINDS = 3  # of constraints in one puzzle, beside digits in cells


class RandomValues(Declared):
    """Random constraints over 24 cells of six values: sums, comparisons, counts, distances, groups that differ."""

    name = "random-values"
    grid, values = (4, 6), "123456"
    fewest = 36

    def puzzle(self, x, rng, fill):
        """Constraints of a few kinds over random cells, all of which a random answer obeys."""
        cells, answer = [*x.flat], rng.integers(1, 7, x.size)

        def some(fewest, most):
            chosen = rng.choice(x.size, rng.integers(fewest, most + 1), replace=False)
            return [cells[i] for i in chosen], answer[chosen]

        def total():
            chosen, digits = some(2, 5)
            return cp.sum(chosen) == int(digits.sum())

        def bound():
            chosen, digits = some(2, 4)
            lower, most = rng.random() < 0.5, int(digits.sum())
            return cp.sum(chosen) >= most - 1 if lower else cp.sum(chosen) <= most + 1

        def compared():
            (a, b), (low, high) = some(2, 2)
            return a < b if low < high else a > b if low > high else a == b

        def differ():
            chosen, digits = some(3, 6)
            first = [chosen[i] for i in np.unique(digits, return_index=True)[1]]
            return cp.AllDifferent(first) if len(first) > 1 else None

        def unequal():
            (a, b), (one, other) = some(2, 2)
            return a != b if one != other else None

        def counted():
            chosen, digits = some(3, 7)
            value = int(rng.integers(1, 7))
            return cp.Count(chosen, value) == int((digits == value).sum())

        def distance():
            (a, b), (one, other) = some(2, 2)
            return abs(a - b) == abs(int(one - other))

        def weighted():
            (a, b, c), digits = some(3, 3)
            return a + 2 * b - c <= int(digits @ [1, 2, -1])

        kinds = [total, bound, compared, differ, unequal, counted, distance, weighted]
        chosen = [kinds[i] for i in rng.choice(len(kinds), KINDS, replace=False)]
        drawn = [kind() for kind in chosen for _ in range(3 * x.size)]
        given = [cell == int(digit) for cell, digit in zip(cells, answer, strict=True)]
        return Drawn(answer.reshape(x.shape), optional=[*(each for each in drawn if each is not None), *given])
