"""Typed Sudokus, mazes and sums: what is drawn is read again, and every reader reads alike or refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
from typed_texts import Case, reading_test
from typed_texts import page as page

from datasets_gen.extensions.addition.puzzles import Addition
from datasets_gen.maze import FREE, GOAL, PATH, START, WALL, Maze
from datasets_gen.parallel import seeded
from datasets_gen.sudoku import Sudoku


def sudoku(size: int) -> Case:
    shift = {4: 2, 6: 3, 9: 3}[size]
    row = np.arange(size)
    answer = ((shift * (row % (size // shift)) + row // (size // shift))[:, None] + row).ravel() % size + 2
    return Case(Sudoku(size), np.where(np.arange(size * size) % 3, 1, answer).astype(np.uint8), answer.astype(np.uint8))


def maze(size: int) -> Case:
    question = np.where(seeded(1, size).random(size * size) < 0.3, WALL, FREE).astype(np.uint8)
    question[[0, -1]] = START, GOAL
    return Case(Maze(size), question, np.where(np.arange(size * size) == 1, PATH, question))


def addition(**facts: Any) -> Case:
    puzzle = Addition(**facts)
    return Case(puzzle, *puzzle.example([10**puzzle.digits - 1, *[7] * (puzzle.operands - 1)]))


CASES = {
    **{f"sudoku-{size}": lambda size=size: sudoku(size) for size in (4, 6, 9)},
    **{f"maze-{size}": lambda size=size: maze(size) for size in (3, 8)},
    "sum": lambda: addition(digits=3, zero_pad=True, reverse=False, causal=False),
    "reversed sum": lambda: addition(digits=2, causal=False, operands=3),
    "causal sum": lambda: addition(digits=4),
}
test_every_reader_reads_alike_or_refuses = reading_test(CASES)
