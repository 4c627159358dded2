"""Constraints over a whole board: its marked cells are connected, or its marked edges form one loop.

When a solution violates such a constraint, the solver adds clauses (see `cuts`). This is many times faster than the
hidden variables of `posted`, which states the constraint in CPMpy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Shape = tuple[int, int]


def drawn_edges(shape: Shape) -> list[tuple[int, int]]:
    """Return the places of the edges on a board where points and edges alternate; shape: (rows, columns) of points."""
    rows, columns = shape
    return [(r, c) for r in range(2 * rows - 1) for c in range(2 * columns - 1) if (r + c) % 2]


def arcs_of(name: str, shape: Shape) -> list[tuple[int, int, int]]:
    """Return arcs (node, neighbour, cell): the cell is the neighbour, or the edge of two points."""
    rows, columns = shape
    if name == "one_loop":
        ends = [(r // 2 * columns + c // 2, (r + 1) // 2 * columns + (c + 1) // 2) for r, c in drawn_edges(shape)]
        return [arc for edge, (a, b) in enumerate(ends) for arc in ((a, b, edge), (b, a, edge))]
    numbers = np.arange(rows * columns).reshape(shape)
    sides = [(numbers[:, :-1], numbers[:, 1:]), (numbers[:-1], numbers[1:])]
    pairs = [pair for one, other in sides for pair in zip(one.ravel().tolist(), other.ravel().tolist(), strict=True)]
    return [arc for a, b in pairs for arc in ((a, b, b), (b, a, a))]


def cuts(name: str, shape: Shape, marked: Sequence[bool]) -> list[tuple[tuple[int, int], set[int]]]:
    """Return clauses that the marked cells (k,) violate; none if they are connected.

    A clause names one marked cell inside a component, one outside it, and the component's border: if both cells are
    marked, a border cell must be marked.
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
        ((inside, of_part[largest]), {cell for a, b, cell in arcs if a in part and b not in part})
        for number, (part, inside) in enumerate(zip(parts, of_part, strict=True))
        if number != largest
    ]


def holds(name: str, shape: Shape, marked: np.ndarray) -> np.ndarray:
    """Return (...) bool: whether marked cells (..., k) satisfy the constraint."""
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
    """Return the edges of each point."""
    arcs = arcs_of("one_loop", shape)
    return [[edge for a, _, edge in arcs if a == point] for point in range(shape[0] * shape[1])]


def local(name: str, shape: Shape, cells: Sequence[Any]) -> list[Any]:
    """Return the part that needs no hidden variables: 0 or 2 edges at each point, and at least one edge."""
    import cpmpy as cp

    if name == "connected":
        return []
    at_points = [cp.sum([cells[edge] for edge in edges]) for edges in _edges_at(shape)]
    return [cp.any(list(cells)), *(cp.InDomain(count, [0, 2]) for count in at_points)]


def posted(name: str, shape: Shape, cells: Sequence[Any]) -> Any:
    """Return the CPMpy constraint: one marked node is the root; each other one has a marked parent of lower order."""
    import cpmpy as cp

    count, arcs = shape[0] * shape[1], arcs_of(name, shape)
    root, parent = cp.boolvar(shape=count), cp.boolvar(shape=len(arcs))
    order = cp.intvar(0, count - 1, shape=count)
    constraints = [*local(name, shape, cells), cp.sum(root) <= 1]
    for node in range(count):
        parents = [each for each, (a, _, _) in zip(parent, arcs, strict=True) if a == node]
        held = cells[node] if name == "connected" else cp.any([cells[edge] for a, _, edge in arcs if a == node])
        constraints.append(held.implies(cp.any([root[node], *parents])))
    for each, (a, b, cell) in zip(parent, arcs, strict=True):
        constraints += [each.implies(cells[cell]), each.implies(order[b] < order[a])]
    return cp.all(constraints)
