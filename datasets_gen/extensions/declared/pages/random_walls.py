"""Random constraints over 48 cells that hold 0, 1 or a wall: for networks that learn constraints, not puzzles."""

from datasets_gen.extensions.declared import Declared, cp
from datasets_gen.extensions.declared.kinds import of_kinds

WALL = 2


class RandomWalls(Declared):
    """Random constraints over 48 cells that hold 0 or 1, some of them walls: counts, bounds, pairs without two ones."""

    name = "random-walls"
    grid, values, lowest, shown_only = (6, 8), "01#", 0, "#"
    fewest = 44

    def puzzle(self, x, rng, fill):
        """Draw walls at a tenth to two fifths of the cells, and constraints that do not count them."""
        ones, walls = rng.uniform(0.15, 0.4), rng.uniform(0.1, 0.4)
        answer = (rng.random(x.size) < ones).astype(int)
        answer[rng.random(x.size) < walls] = WALL

        def count(some):
            chosen, digits = some(2, 9)
            return cp.Count(chosen, 1) == int((digits == 1).sum())

        def bound(some):
            chosen, digits = some(3, 9)
            lower, total = rng.random() < 0.5, int((digits == 1).sum())
            return cp.Count(chosen, 1) >= total if lower else cp.Count(chosen, 1) <= total

        def apart(some):
            (a, b), digits = some(2, 2)
            return (a != 1) | (b != 1) if (digits != 1).any() else None

        return of_kinds(x, rng, answer, [count, bound, apart], 2, WALL)
