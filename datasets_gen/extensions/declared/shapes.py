"""Shapes on a grid: boxes, and random cages, regions, walls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np

from datasets_gen.layout import DatasetError

LETTERS = "".join(filter(str.isalpha, map(chr, range(0x250))))  # names of regions: A to Z, a to z, accented letters


def boxes(x: Any, shape: tuple[int, int]) -> Any:
    """Return the boxes (rows, columns) of a board x (R, C) as an array (boxes, cells), such as those of a Sudoku."""
    rows, columns = shape
    return x.reshape(-1, rows, x.shape[1] // columns, columns).swapaxes(1, 2).reshape(-1, rows * columns)


def neighbours(grid: tuple[int, int], cell: int) -> list[int]:
    """Return the neighbours of a cell: above, left, right, below."""
    rows, columns = grid
    row, column = divmod(cell, columns)
    around = [(row - 1, column), (row, column - 1), (row, column + 1), (row + 1, column)]
    return [r * columns + c for r, c in around if 0 <= r < rows and 0 <= c < columns]


def connected(cells: set[int], grid: tuple[int, int]) -> bool:
    """Return whether the cells are connected."""
    reached, stack = set[int](), [next(iter(cells))] if cells else []
    while stack:
        cell = stack.pop()
        if cell not in reached:
            reached.add(cell)
            stack += [each for each in neighbours(grid, cell) if each in cells]
    return reached == cells


def cages(grid: tuple[int, int], rng: np.random.Generator, sizes: Sequence[int]) -> np.ndarray:
    """Divide a grid at random into connected cages; returns the number of each cell's cage, from 0.

    A cage grows to one of `sizes`, or until it has no free neighbour; a cage of one cell joins a neighbouring cage.
    """
    number = np.full(grid[0] * grid[1], -1)
    for start in rng.random(number.size).argsort():
        if number[start] >= 0:
            continue
        cage, size = [int(start)], sizes[int(rng.random() * len(sizes))]
        while len(cage) < size:
            free = sorted({n for c in cage for n in neighbours(grid, c) if number[n] < 0 and n not in cage})
            if not free:
                break
            cage.append(free[int(rng.random() * len(free))])
        adjacent = [number[n] for n in neighbours(grid, cage[0]) if number[n] >= 0] if len(cage) == 1 else []
        number[cage] = adjacent[int(rng.random() * len(adjacent))] if adjacent else number.max() + 1
    return number.reshape(grid)


def exchanged(regions: np.ndarray, rng: np.random.Generator, times: int) -> np.ndarray:
    """Exchange two border cells `times` times so that regions keep their sizes and stay connected."""
    grid = regions.shape
    number = regions.ravel().copy()
    while times:
        cell = int(rng.random() * number.size)
        others = [n for n in neighbours(grid, cell) if number[n] != number[cell]]
        if not others:
            continue
        ours, theirs = number[cell], number[others[int(rng.random() * len(others))]]
        border = [
            c for c in np.flatnonzero(number == theirs).tolist() if any(number[n] == ours for n in neighbours(grid, c))
        ]
        other = int(border[int(rng.random() * len(border))])
        number[cell], number[other] = theirs, ours
        if all(connected(set(np.flatnonzero(number == region).tolist()), grid) for region in (ours, theirs)):
            times -= 1
        else:
            number[cell], number[other] = ours, theirs
    return number.reshape(grid)


def segments(open_cells: np.ndarray) -> tuple[list[list[int]], list[list[int]]]:
    """Return the runs of open cells in rows, and those in columns, as lists of cells."""
    numbers = np.arange(open_cells.size).reshape(open_cells.shape)
    return _runs(numbers, open_cells), _runs(numbers.T, open_cells.T)


def _runs(numbers: np.ndarray, open_cells: np.ndarray) -> list[list[int]]:
    lines = [zip(*line, strict=True) for line in zip(numbers.tolist(), open_cells.tolist(), strict=True)]
    return [[cell for cell, _ in run] for line in lines for here, run in groupby(line, itemgetter(1)) if here]


def walls(grid: tuple[int, int], rng: np.random.Generator, share: float, shortest: int) -> np.ndarray:
    """Return random walls (bool) in at most `share` of the cells; every run has `shortest` cells or more."""
    while True:
        closed = rng.random(grid) < share / 2  # closing short runs adds about as many
        while short := [run for line in segments(~closed) for run in line if len(run) < shortest]:
            closed.flat[short[int(rng.random() * len(short))]] = True
        if share / 2 <= closed.mean() <= share:
            return closed


def mapped(
    instances: Sequence[Any], grid: tuple[int, int], shown: set[int]
) -> tuple[list[str], dict[tuple[int, ...], str]]:
    """Return the relations whose instances are disjoint connected regions of `shown` cells, and each region's letter.

    instances: (relation, clue numbers, cells), as of `Declared.stated`.
    """
    names, letters = list[str](), dict[tuple[int, ...], str]()
    for name in dict.fromkeys(r.name for r, _, _ in instances if not r.places):
        regions = [cells for r, _, cells in instances if r.name == name]
        every = dict.fromkeys([*letters, *regions])
        disjoint = len({*regions}) == len(regions) and sum(map(len, every)) == len(set().union(*every))
        whole = all(connected({*cells}, grid) for cells in regions)
        across = any(len({c // grid[1] for c in cells}) > 1 < len({c % grid[1] for c in cells}) for cells in regions)
        if disjoint and whole and across and shown.issuperset(set().union(*regions)):
            names.append(name)
            letters = dict(zip(every, LETTERS, strict=False))
    return names, letters


def line_of(name: str, numbers: Sequence[int], cells: Sequence[int]) -> str:
    """Return the line of an instance in text: its relation, clue numbers and cells."""
    return f"{' '.join(map(str, (name, *numbers)))}: {' '.join(map(str, cells))}"


def lettered(letters: Mapping[tuple[int, ...], str], cells: int) -> np.ndarray:
    """Return (S,): each cell's letter of its region, a dot outside of regions."""
    characters = np.full(cells, ".")
    for region, letter in letters.items():
        characters[list(region)] = letter
    return characters


def read_letters(lines: Sequence[str], grid: tuple[int, int]) -> dict[str, list[int]]:
    """Parse a typed map of connected regions; returns the cells of each letter."""
    cells = ["".join(line.split()) for line in lines]
    if [*map(len, cells)] != [grid[1]] * grid[0]:
        raise DatasetError(f"type a board and a map of its regions, each of {grid[0]} lines of {grid[1]} cells")
    typed = np.array(list("".join(cells)))
    regions = {letter: np.flatnonzero(typed == letter).tolist() for letter in dict.fromkeys(typed) if letter != "."}
    if split := [letter for letter, cells in regions.items() if not connected({*cells}, grid)]:
        raise DatasetError(f"region {split[0]} is in two places; type a different letter for each region")
    return regions
