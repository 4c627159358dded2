"""Compiled breadth-first search on square mazes, and the label that it defines.

A maze is (S,) uint8 of tokens, S = size² cells row by row: 1 wall, 2 free, 3 start, 4 goal, 5 path.
"""

from __future__ import annotations

import numpy as np

from datasets_gen.compiled import compiled

WALL, FREE, START, GOAL, PATH = 1, 2, 3, 4, 5
BITS = 62  # the longest row whose bits fit in an int64; a shift needs one bit more


@compiled
def _explore(open_cells, start, size, distance, parent, ways, queue):
    """Search breadth-first from `start`, in the order down, left, right, up; return the number of cells reached.

    open_cells (S,) bool. Fills distance (S,), in moves, -1 unreached; parent (S,), the first cell to reach it; ways
    (S,), the number of shortest paths, 2 for more than one.
    """
    distance[:] = -1
    distance[start], parent[start], ways[start] = 0, start, 1
    queue[0] = start
    done, reached = 0, 1
    while done < reached:
        cell = queue[done]
        done += 1
        row, column = cell // size, cell % size
        for side in range(4):
            if side == 0 and row < size - 1:
                following = cell + size
            elif side == 1 and column > 0:
                following = cell - 1
            elif side == 2 and column < size - 1:
                following = cell + 1
            elif side == 3 and row > 0:
                following = cell - size
            else:
                continue
            if not open_cells[following]:
                continue
            if distance[following] < 0:
                distance[following] = distance[cell] + 1
                parent[following] = cell
                ways[following] = ways[cell]
                queue[reached] = following
                reached += 1
            elif distance[following] == distance[cell] + 1:
                ways[following] = 2
    return reached


@compiled
def _ends(maze):
    """Return the cells of S and G."""
    start, goal = -1, -1
    for cell in range(len(maze)):
        if maze[cell] == 3:
            start = cell
        elif maze[cell] == 4:
            goal = cell
    return start, goal


@compiled
def _solve_all(mazes, size):
    count, cells = mazes.shape
    labels = mazes.copy()
    lengths = np.zeros(count, np.int64)
    several = np.zeros(count, np.int64)
    distance, parent = np.empty(cells, np.int64), np.empty(cells, np.int64)
    ways, queue = np.empty(cells, np.int64), np.empty(cells, np.int64)
    for i in range(count):
        start, goal = _ends(mazes[i])
        _explore(mazes[i] != 1, start, size, distance, parent, ways, queue)
        if distance[goal] < 0:
            continue
        lengths[i], several[i] = distance[goal] + 1, ways[goal]
        cell = parent[goal]
        while cell != start:
            labels[i, cell] = 5
            cell = parent[cell]
    return labels, lengths, several


@compiled
def _mark_all(mazes, size, marks):
    """Fill marks (N, S) bool: the moves from the start and to the goal add up to those of a shortest path."""
    count, cells = mazes.shape
    from_start, from_goal = np.empty(cells, np.int64), np.empty(cells, np.int64)
    parent, ways, queue = np.empty(cells, np.int64), np.empty(cells, np.int64), np.empty(cells, np.int64)
    for i in range(count):
        start, goal = _ends(mazes[i])
        _explore(mazes[i] != 1, start, size, from_start, parent, ways, queue)
        _explore(mazes[i] != 1, goal, size, from_goal, parent, ways, queue)
        for cell in range(cells):
            marks[i, cell] = from_start[cell] >= 0 and from_start[cell] + from_goal[cell] == from_start[goal]


@compiled
def _farthest(rows, front, start, size):
    """Return the distance from `start` to the farthest cell; each row is a bit mask of its cells.

    rows (size + 2,) the free cells, between two empty rows; reached cells are removed. front (size + 2,) is 0 before
    and after.
    """
    first = last = start // size + 1
    front[first] = 1 << (start % size)
    rows[first] ^= front[first]
    moves = 0
    while True:
        first, last = max(first - 1, 1), min(last + 1, size)
        above, grown = 0, 0
        for row in range(first, last + 1):
            here = front[row]
            front[row] = (here << 1 | here >> 1 | above | front[row + 1]) & rows[row]
            rows[row] ^= front[row]
            above, grown = here, grown | front[row]
        if grown == 0:
            return moves
        moves += 1


@compiled
def search_mazes(rng, draws, size, lowest, highest, min_path, unique, kept):
    """Draw `draws` mazes; put the mazes with goals far from their start, with start and weight, into `kept`.

    Each maze has a wall density between `lowest` and `highest`, independent walls, and a start among the free cells.
    kept (M, S + 1) uint32: cells (1 wall, 2 free, 3 start, 4 each goal at least `min_path` cells from the start, with
    `unique` by one shortest path), and the number of such goals. Stops early if `kept` is full. Returns the number of
    kept mazes.
    """
    cells = size * size
    free = np.empty(cells, np.bool_)
    rows, front = np.zeros(size + 2, np.int64), np.zeros(size + 2, np.int64)
    distance, parent = np.empty(cells, np.int64), np.empty(cells, np.int64)
    ways, queue = np.empty(cells, np.int64), np.empty(cells, np.int64)
    count = 0
    for _ in range(draws):
        density = lowest + (highest - lowest) * rng.random()
        total = 0
        for row in range(size):
            rows[row + 1] = 0
            for column in range(size):
                cell = row * size + column
                free[cell] = rng.random() >= density
                total += free[cell]
                rows[row + 1] |= np.int64(free[cell]) << column
        place = int(rng.random() * total)
        if total < min_path:
            continue
        start = -1
        while place >= 0:
            start += 1
            place -= free[start]
        if size <= BITS and _farthest(rows, front, start, size) + 1 < min_path:
            continue
        reached = _explore(free, start, size, distance, parent, ways, queue)
        far = 0
        for cell in range(cells):
            kept[count, cell] = 2 if free[cell] else 1
        for k in range(reached):
            if distance[queue[k]] + 1 >= min_path and not (unique and ways[queue[k]] > 1):
                kept[count, queue[k]] = 4
                far += 1
        kept[count, start] = 3
        kept[count, cells] = far
        count += far > 0
        if count == len(kept):
            break
    return count


def on_shortest_paths(mazes: np.ndarray) -> np.ndarray:
    """Return (N, S) bool: the cells of all shortest paths, both ends included; none if no path exists."""
    marks = np.empty(mazes.shape, np.bool_)
    _mark_all(np.ascontiguousarray(mazes, np.uint8), round(mazes.shape[1] ** 0.5), marks)
    return marks


def solve(mazes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return labels (N, S), path cells with both ends (N,), and the number of shortest paths (N,), at most 2.

    Every maze (N, S) has one start and goal; if no path exists, its label is the maze and its length 0.
    """
    return _solve_all(np.ascontiguousarray(mazes, np.uint8), round(mazes.shape[1] ** 0.5))
