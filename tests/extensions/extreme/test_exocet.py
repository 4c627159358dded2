"""Exocets against their definition, under symmetries, and what they say about the solution."""

import itertools

import numpy as np
import pytest
from test_depth import HARD, board_of

from datasets_gen.extensions.extreme.exocet import exocet_puzzle, holds_exocet
from datasets_gen.sudoku import Sudoku
from datasets_gen.sudoku.solver import full_grid, solve, thin


def left(grid):
    """The digits that the clues leave to every cell."""
    found = {}
    for row, column in itertools.product(range(9), range(9)):
        box = grid[row // 3 * 3 : row // 3 * 3 + 3, column // 3 * 3 : column // 3 * 3 + 3]
        seen = {*grid[row].tolist(), *grid[:, column].tolist(), *box.ravel().tolist()}
        found[row, column] = {int(grid[row, column])} if grid[row, column] else set(range(1, 10)) - seen
    return found


def exocets(grid):
    """(two base cells, two targets) of every exocet whose base lies in a row."""
    digits = left(grid)
    for row, box in itertools.product(range(9), range(3)):
        up, down = (r for r in range(row // 3 * 3, row // 3 * 3 + 3) if r != row)
        one, other = (b for b in range(3) if b != box)
        for third in range(3 * box, 3 * box + 3):
            cells = [(row, column) for column in range(3 * box, 3 * box + 3) if column != third]
            base = digits[cells[0]] | digits[cells[1]]
            if any(grid[cell] for cell in cells) or len(base) not in (3, 4):
                continue
            for (a, b), c, d in itertools.product(
                [(up, down), (down, up)], range(3 * one, 3 * one + 3), range(3 * other, 3 * other + 3)
            ):
                targets, companions = [(a, c), (b, d)], [(b, c), (a, d)]
                if any(grid[cell] or not base <= digits[cell] for cell in targets):
                    continue
                if any(base & digits[cell] for cell in companions):
                    continue
                lines = (third, c, d)
                outside = [r for r in range(9) if r // 3 != row // 3]
                covers = [({p, q}, set()) for p in outside for q in outside] + [
                    ({p}, {q}) for p in outside for q in lines
                ]
                if all(
                    any(
                        all(r in rows or k in columns for r in outside for k in lines if digit in digits[r, k])
                        for rows, columns in covers
                    )
                    for digit in base
                ):
                    yield cells, targets


def naive(board):
    return any(any(exocets(grid)) for grid in (board.reshape(9, 9), board.reshape(9, 9).T))


@pytest.fixture(scope="module")
def made():
    rng = np.random.default_rng(0)
    return [exocet_puzzle(rng) for _ in range(6)]


def test_exocets_are_those_of_the_definition(made):
    rng = np.random.default_rng(1)
    grid = full_grid(9, rng)
    boards = [question for question, _ in made] + [board_of(text) for text in HARD] + [thin(grid, rng)]
    for question, answer in made:  # a clue more, a clue less: some hold one still
        for cell in rng.permutation(81)[:20]:
            board = question.copy()
            board[cell] = 0 if board[cell] else answer[cell]
            boards.append(board)
    found = [holds_exocet(board) for board in boards]
    assert found == [naive(board) for board in boards]
    assert 20 < sum(found) < len(found) - 20


def test_targets_take_the_digits_of_the_base(made):
    for question, answer in made:
        assert Sudoku(9).mistake(question + 1, answer + 1) is None
        assert solve(question[None]).counts[0] == 1
        for turned in (lambda board: board.reshape(9, 9), lambda board: board.reshape(9, 9).T):
            for base, targets in exocets(turned(question)):
                assert {turned(answer)[cell] for cell in base} == {turned(answer)[cell] for cell in targets}
