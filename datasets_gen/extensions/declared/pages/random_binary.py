"""Random constraints over 60 cells that hold 0 or 1: for networks that learn constraints rather than puzzles."""

from datasets_gen.extensions.declared import Declared, cp
from datasets_gen.extensions.declared.kinds import of_kinds


class RandomBinary(Declared):
    """Random constraints over 60 cells that hold 0 or 1: counts, bounds, clauses, equal and unequal pairs."""

    name = "random-binary"
    grid, values, lowest = (6, 10), "01", 0
    fewest = 56

    def puzzle(self, x, rng, fill):
        """Draw constraints of two kinds over random cells that a random answer satisfies."""
        share = rng.uniform(0.2, 0.5)  # of ones
        answer = (rng.random(x.size) < share).astype(int)

        def count(some):
            chosen, digits = some(2, 9)
            return cp.sum(chosen) == int(digits.sum())

        def bound(some):
            chosen, digits = some(3, 8)
            lower, total = rng.random() < 0.5, int(digits.sum())
            return cp.sum(chosen) >= total if lower else cp.sum(chosen) <= total

        def clause(some):
            chosen, digits = some(3, 3)
            wanted = rng.integers(0, 2, 3)
            wanted[0] = digits[0]  # one literal is true
            return cp.any([cell == int(one) for cell, one in zip(chosen, wanted, strict=True)])

        def pair(some):
            (a, b), (one, other) = some(2, 2)
            return a == b if one == other else a != b

        kinds = [count, bound, clause, pair]
        return of_kinds(x, rng, answer, kinds, 2)
