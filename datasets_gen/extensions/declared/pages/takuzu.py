"""Takuzu 10×10: as many zeros as ones in each line, never three equal digits in a row."""

from datasets_gen.extensions.declared import Declared, Drawn, cp


class Takuzu(Declared):
    """Takuzu 10×10: as many zeros as ones in each line, never three equal digits in a row."""

    name = "takuzu"
    grid, values, lowest = (10, 10), "01", 0

    def always(self, x):
        """Require halves and triples. Lines need not differ: every puzzle has one solution without this rule."""
        lines = [*x, *x.T]
        triples = [line[i : i + 3] for line in lines for i in range(len(line) - 2)]
        halves = [cp.sum(line) == len(line) // 2 for line in lines]
        return [*halves, *(cp.InDomain(cp.sum(triple), [1, 2]) for triple in triples)]

    def puzzle(self, x, rng, fill):
        """Draw a grid whose lines differ, and show digits in some cells."""
        pairs = [(a, b) for lines in (x, x.T) for i, a in enumerate(lines) for b in lines[:i]]
        answer = fill(hidden=[cp.any(a != b) for a, b in pairs])
        return Drawn(answer, optional=[cell == value for cell, value in zip(x.flat, answer.flat, strict=True)])
