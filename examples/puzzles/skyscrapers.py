"""Skyscrapers 4×4."""

from datasets_gen.extensions.declared import Declared, Drawn, cp


class Skyscrapers(Declared):
    """Skyscrapers 4×4: a Latin square of heights; numbers at the sides count the buildings in sight."""

    name = "skyscrapers"
    grid, values = (4, 4), "1234"

    def always(self, x):
        """Rows and columns."""
        return [cp.AllDifferent(line) for line in (*x, *x.T)]

    def puzzle(self, x, rng, fill):
        """The buildings in sight from every side of every line, and heights."""
        answer, clues = fill(), []
        lines = [*x, *x.T, *x[:, ::-1], *x.T[:, ::-1]]
        heights = [*answer, *answer.T, *answer[:, ::-1], *answer.T[:, ::-1]]
        for line, tall in zip(lines, heights, strict=True):
            seen = [line[i] > cp.max(line[:i]) for i in range(1, 4)]
            clues.append(cp.sum(seen) == sum(int(tall[i] > tall[:i].max()) for i in range(1, 4)))
        given = [cell == height for cell, height in zip(x.flat, answer.flat, strict=True)]
        return Drawn(answer, optional=[*clues, *given])
