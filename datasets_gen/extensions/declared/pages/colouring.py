"""Graph colouring: three colours, 30 to 100 nodes, neighbours have different colours."""

import numpy as np

from datasets_gen.extensions.declared import Drawn, WithEdges


class Colouring(WithEdges):
    """Graph colouring: three colours, 30 to 100 nodes, neighbours have different colours."""

    name = "colouring"
    grid, values = (1, 100), "RGB"
    unique = False

    def puzzle(self, x, rng, fill):
        """Draw a colouring, 2.2 edges per node between different colours, and show a tenth of the nodes."""
        count = 30 + int(rng.random() * 71)
        answer = 1 + (rng.random(100) * 3).astype(int)
        edges = set()
        while len(edges) < 2.2 * count:
            a, b = sorted((rng.random(2) * count).astype(int).tolist())
            if answer[a] != answer[b]:
                edges.add((a, b))
        shown = rng.random(count).argsort()[: count // 10]
        edges = [x[0, a] != x[0, b] for a, b in sorted(edges)]
        return Drawn(answer, shown=[*edges, *(x[0, n] == answer[n] for n in shown)], absent=np.arange(100) >= count)
