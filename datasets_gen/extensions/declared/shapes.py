"""Random shapes on a grid for pages: cages, regions, walls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter

import numpy as np

from datasets_gen.layout import DatasetError

LETTERS = "".join(filter(str.isalpha, map(chr, range(0x250))))  # of regions: A to Z, a to z, then with accents


def neighbours(grid: tuple[int, int], cell: int) -> list[int]:
    """The cells beside a cell: above, left, right, below."""
    rows, columns = grid
    row, column = divmod(cell, columns)
    around = [(row - 1, column), (row, column - 1), (row, column + 1), (row + 1, column)]
    return [r * columns + c for r, c in around if 0 <= r < rows and 0 <= c < columns]


def connected(cells: set[int], grid: tuple[int, int]) -> bool:
    """Whether a path through the cells leads from each to each."""
    reached, stack = set[int](), [next(iter(cells))] if cells else []
    while stack:
        cell = stack.pop()
        if cell not in reached:
            reached.add(cell)
            stack += [each for each in neighbours(grid, cell) if each in cells]
    return reached == cells


def cages(grid: tuple[int, int], rng: np.random.Generator, sizes: Sequence[int]) -> np.ndarray:
    """A random division of a grid into connected cages: the number of each cell's cage, from 0.

    A cage grows to one of `sizes`, or ends where no free cell is beside it; a cage of one cell joins one beside it.
    """
    number = np.full(grid[0] * grid[1], -1)
    for start in rng.random(number.size).argsort():
        if number[start] >= 0:
            continue
        cage, size = [int(start)], sizes[int(rng.random() * len(sizes))]
        while len(cage) < size:
            beside = sorted({n for c in cage for n in neighbours(grid, c) if number[n] < 0 and n not in cage})
            if not beside:
                break
            cage.append(beside[int(rng.random() * len(beside))])
        alone = [number[n] for n in neighbours(grid, cage[0]) if number[n] >= 0] if len(cage) == 1 else []
        number[cage] = alone[int(rng.random() * len(alone))] if alone else number.max() + 1
    return number.reshape(grid)


def exchanged(regions: np.ndarray, rng: np.random.Generator, times: int) -> np.ndarray:
    """Regions after `times` exchanges of two cells at a border that keep sizes and connectedness."""
    grid = regions.shape
    number = regions.ravel().copy()
    while times:
        cell = int(rng.random() * number.size)
        beside = [n for n in neighbours(grid, cell) if number[n] != number[cell]]
        if not beside:
            continue
        ours, theirs = number[cell], number[beside[int(rng.random() * len(beside))]]
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
    """The runs of open cells in rows, and those in columns: lists of cells."""
    numbers = np.arange(open_cells.size).reshape(open_cells.shape)
    return _runs(numbers, open_cells), _runs(numbers.T, open_cells.T)


def _runs(numbers: np.ndarray, open_cells: np.ndarray) -> list[list[int]]:
    lines = [zip(*line, strict=True) for line in zip(numbers.tolist(), open_cells.tolist(), strict=True)]
    return [[cell for cell, _ in run] for line in lines for here, run in groupby(line, itemgetter(1)) if here]


def walls(grid: tuple[int, int], rng: np.random.Generator, share: float, shortest: int) -> np.ndarray:
    """Random walls (bool) in at most `share` of the cells that leave runs of `shortest` cells or more in every line."""
    while True:
        found = rng.random(grid) < share / 2  # closing short runs adds about as many
        while short := [run for line in segments(~found) for run in line if len(run) < shortest]:
            found.flat[short[int(rng.random() * len(short))]] = True
        if share / 2 <= found.mean() <= share:
            return found


def lettered(letters: Mapping[tuple[int, ...], str], cells: int) -> np.ndarray:
    """(S,): the letter of each region in its cells, a dot in a cell of none."""
    found = np.full(cells, ".")
    for region, letter in letters.items():
        found[list(region)] = letter
    return found


def read_letters(lines: Sequence[str], grid: tuple[int, int]) -> dict[str, list[int]]:
    """The cells of each letter of a typed map, whose regions are connected."""
    cells = ["".join(line.split()) for line in lines]
    if [*map(len, cells)] != [grid[1]] * grid[0]:
        raise DatasetError(f"type a board and a map of its regions, each of {grid[0]} lines of {grid[1]} cells")
    found = np.array(list("".join(cells)))
    regions = {letter: np.flatnonzero(found == letter).tolist() for letter in dict.fromkeys(found) if letter != "."}
    if split := [letter for letter, cells in regions.items() if not connected({*cells}, grid)]:
        raise DatasetError(f"region {split[0]} is in two places; give each region a letter of its own")
    return regions
