"""Constraints over a whole board: its marked cells are connected, its marked edges are one loop.

The solver adds them as clauses when a solution breaks them, see `cuts`: that is many times faster than the hidden
variables of `posted`, which state them at once for whatever reads CPMpy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Shape = tuple[int, int]


def drawn_edges(shape: Shape) -> list[tuple[int, int]]:
    """The places of the edges on a board of points and edges in turn; `shape` is that of the points."""
    rows, columns = shape
    return [(r, c) for r in range(2 * rows - 1) for c in range(2 * columns - 1) if (r + c) % 2]


def arcs_of(name: str, shape: Shape) -> list[tuple[int, int, int]]:
    """(node, neighbour, the cell through which one reaches the other): the neighbour itself, or the edge of points."""
    rows, columns = shape
    if name == "one_loop":
        ends = [(r // 2 * columns + c // 2, (r + 1) // 2 * columns + (c + 1) // 2) for r, c in drawn_edges(shape)]
        return [arc for edge, (a, b) in enumerate(ends) for arc in ((a, b, edge), (b, a, edge))]
    numbers = np.arange(rows * columns).reshape(shape)
    beside = [(numbers[:, :-1], numbers[:, 1:]), (numbers[:-1], numbers[1:])]
    pairs = [pair for one, other in beside for pair in zip(one.ravel().tolist(), other.ravel().tolist(), strict=True)]
    return [arc for a, b in pairs for arc in ((a, b, b), (b, a, a))]


def cuts(name: str, shape: Shape, marked: Sequence[bool]) -> list[tuple[tuple[int, int], set[int]]]:
    """Clauses that the marked cells (k,) break, none where they are connected.

    Each holds two cells, in and outside a part, and all cells on its border: where both are marked, one of the border
    is, too.
    """
    arcs = arcs_of(name, shape)
    edges = name == "one_loop"
    left = {a for a, _, cell in arcs if marked[cell]} if edges else set(np.flatnonzero(marked).tolist())
    parts = []
    while left:
        part, stack = set[int](), [min(left)]
        while stack:
            part.add(node := stack.pop())
            stack += [b for a, b, cell in arcs if a == node and marked[cell] and b not in part]
        left -= part
        parts.append(part)
    of_part = [min(cell for a, _, cell in arcs if marked[cell] and a in part) if edges else min(part) for part in parts]
    largest = max(range(len(parts)), key=lambda each: len(parts[each]), default=0)
    return [
        ((own, of_part[largest]), {cell for a, b, cell in arcs if a in part and b not in part})
        for number, (part, own) in enumerate(zip(parts, of_part, strict=True))
        if number != largest
    ]


def holds(name: str, shape: Shape, marked: np.ndarray) -> np.ndarray:
    """(..., k) bool -> (...) bool."""
    (rows, columns), size = shape, marked.shape[-1]
    if size != (rows * (columns - 1) + columns * (rows - 1) if name == "one_loop" else rows * columns):
        raise ValueError(f"{size} cells do not fit {name} of {shape}")
    flat = marked.reshape(-1, size)
    right = np.array([not cuts(name, shape, row) for row in flat.tolist()], bool)
    if name == "one_loop":
        degrees = [flat[:, edges].sum(1) for edges in _edges_at(shape)]
        right &= flat.any(1) & np.isin(degrees, (0, 2)).all(0)
    return right.reshape(marked.shape[:-1])


def _edges_at(shape: Shape) -> list[list[int]]:
    """The edges of each point."""
    arcs = arcs_of("one_loop", shape)
    return [[edge for a, _, edge in arcs if a == point] for point in range(shape[0] * shape[1])]


def local(name: str, shape: Shape, cells: Sequence[Any]) -> list[Any]:
    """What CPMpy states without hidden variables: two edges at each point that has any, and one edge at all."""
    import cpmpy as cp

    if name == "connected":
        return []
    at_points = [cp.sum([cells[edge] for edge in edges]) for edges in _edges_at(shape)]
    return [cp.any(list(cells)), *(cp.InDomain(count, [0, 2]) for count in at_points)]


def posted(name: str, shape: Shape, cells: Sequence[Any]) -> Any:
    """The CPMpy constraint: one of the marked nodes is the root, each other has a marked parent of a lower order."""
    import cpmpy as cp

    count, arcs = shape[0] * shape[1], arcs_of(name, shape)
    root, parent = cp.boolvar(shape=count), cp.boolvar(shape=len(arcs))
    order = cp.intvar(0, count - 1, shape=count)
    found = [*local(name, shape, cells), cp.sum(root) <= 1]
    for node in range(count):
        parents = [each for each, (a, _, _) in zip(parent, arcs, strict=True) if a == node]
        held = cells[node] if name == "connected" else cp.any([cells[edge] for a, _, edge in arcs if a == node])
        found.append(held.implies(cp.any([root[node], *parents])))
    for each, (a, b, cell) in zip(parent, arcs, strict=True):
        found += [each.implies(cells[cell]), each.implies(order[b] < order[a])]
    return cp.all(found)
