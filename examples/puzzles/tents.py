"""Tents 6×6: a tent beside each tree, and no two tents touch."""

import numpy as np

from datasets_gen.extensions.declared import Declared, Drawn, cp


class Tents(Declared):
    """Tents 6×6: each tree has a tent at its side, each tent a tree; tents do not touch; numbers count them by line."""

    name = "tents"
    grid, values, lowest, shown_only = (6, 6), "-AT", 0, "T"

    def always(self, x):
        """No two tents touch, at a corner neither."""
        pairs = [(x[:-1], x[1:]), (x[:, :-1], x[:, 1:]), (x[:-1, :-1], x[1:, 1:]), (x[:-1, 1:], x[1:, :-1])]
        return [(a != 1) | (b != 1) for one, other in pairs for a, b in zip(one.flat, other.flat, strict=True)]

    def puzzle(self, x, rng, fill):
        """Tents at random, a tree for each, the counts of rows and columns, and some empty cells."""
        beside = {place: [x[near] for near in sides(place)] for place in np.ndindex(6, 6)}
        answer = np.zeros((6, 6), int)
        for place in map(tuple, rng.permutation([*np.ndindex(6, 6)])[:20]):
            free = [near for near in sides(place) if answer[near] == 0]
            r, c = place
            if answer[place] == 0 and free and not (answer[max(r - 1, 0) : r + 2, max(c - 1, 0) : c + 2] == 1).any():
                answer[place], answer[free[int(rng.integers(len(free)))]] = 1, 2
        lines = [*zip(x, answer, strict=True), *zip(x.T, answer.T, strict=True)]
        counts = [cp.Count(line, 1) == int((digits == 1).sum()) for line, digits in lines]
        trees = [[x[place] == 2, cp.Count(beside[place], 1) >= 1] for place in beside if answer[place] == 2]
        far = [x[place] == 0 for place in beside if not any(answer[near] == 2 for near in (place, *sides(place)))]
        empty = [x[place] == 0 for place in beside if answer[place] == 0]
        return Drawn(answer, shown=[*trees, *counts, *far], optional=empty)


def sides(place):
    """The cells beside a cell: above, below, left, right."""
    r, c = place
    return [(a, b) for a, b in ((r - 1, c), (r + 1, c), (r, c - 1), (r, c + 1)) if 0 <= a < 6 and 0 <= b < 6]
