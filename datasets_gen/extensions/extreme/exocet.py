"""Junior exocets, a pattern that more than half of the hardest published Sudokus hold, and puzzles made to hold one.

Two open cells that a line and a box share are the base. In each of the other two boxes of the band one cell off the
base's line is a target: together they take the two digits of the base. The base has three or four candidates, which
every target has too. The companion of a target, the cell of its column in the third line of the band, has none of them.
The cross-lines are the columns of the targets and of the base's third cell. Outside the band every base candidate is
covered there by two lines, or by one and a cross-line. So whatever the base holds, the targets hold. Candidates are
those that the clues leave. (Bird, JExocet compendium) A symmetry brings every exocet to the cells below:

    B B x | . . . | . . .     B base   T target   c companion   x cross-line
    . . x | T . . | c . .
    . . x | c . . | T . .
    . . x | x . . | x . .     and so in the rows below
"""

from __future__ import annotations

import numpy as np

from datasets_gen.compiled import compiled
from datasets_gen.extensions.extreme.solver import minimise, solutions
from datasets_gen.sudoku.generate import Puzzle
from datasets_gen.sudoku.solver import BITS, a_solution, masks
from datasets_gen.sudoku.tables import geometry

BASE, TARGETS, COMPANIONS, CROSS = [0, 1], [12, 24], [15, 21], np.array([2, 3, 6])
PEERS, (ROWS, COLUMNS) = geometry(9).peers, np.indices((9, 9)).reshape(2, 81)
BELOW = np.isin(COLUMNS, CROSS) & (ROWS > 2)
FIRST_ROW, FIRST_BOX = ROWS == 0, (ROWS < 3) & (COLUMNS < 3)
SEEN = np.zeros(81, bool)  # cells whose clues take candidates from the base or a target
SEEN[PEERS[BASE + TARGETS]] = True


@compiled
def holds_exocet(board):
    """Return whether a board (81,) holds an exocet in the cells above."""
    if board[0] | board[1] | board[12] | board[24]:
        return False
    mask = masks(board, 9)
    for cell in range(81):
        for k in range(PEERS.shape[1] if board[cell] else 0):
            mask[PEERS[cell, k]] &= ~mask[cell]
    base, targets, companions = mask[0] | mask[1], mask[12] & mask[24], mask[15] | mask[21]
    if BITS[base] < 3 or BITS[base] > 4 or base & ~targets or base & companions:
        return False
    for digit in range(9):
        rows = np.zeros(3, np.int64)  # places of the digit below the band, in every cross-line
        for row in range(3, 9):
            for k in range(3):
                rows[k] |= np.int64(mask[9 * row + CROSS[k]] >> digit & 1) << row
        least = min(BITS[rows[0] | rows[1]], BITS[rows[0] | rows[2]], BITS[rows[1] | rows[2]])
        if base >> digit & 1 and BITS[rows[0] | rows[1] | rows[2]] > 2 and least > 1:
            return False
    return True


def exocet_puzzle(rng: np.random.Generator) -> Puzzle:
    """Return a random puzzle that holds an exocet, and its solution; clues of the exocet may be superfluous."""
    while True:
        answer = np.zeros(81, np.uint8)
        answer[:9] = rng.random(9).argsort() + 1
        answer[TARGETS] = answer[BASE]
        answer = a_solution(answer, rng, geometry(9))
        # Other candidates of the base: a digit that a cross-line holds in the band is covered by the other two.
        more = {*answer[[11, 20, 3, 6]].tolist()} - {*answer[[*BASE, 2, *COMPANIONS]].tolist()}
        order = rng.random(len(more)).argsort()[: 1 + int(rng.random() * 2)]
        base = np.isin(answer, [*answer[BASE], *np.array(sorted(more), np.uint8)[order]])
        question = answer.copy()
        question[BASE + TARGETS] = question[SEEN & base] = 0
        if not holds_exocet(question) or solutions(question, limit=2)[0][1].any():
            continue
        needed = BELOW & ~base
        needed[COMPANIONS] = True
        for digit in sorted(set(range(1, 10)) - set(answer[base].tolist())):  # the base sees every other digit
            needed |= (answer == digit) & (FIRST_ROW if rng.random() < 0.5 else FIRST_BOX)
        order = (rng.random(81) + base).argsort()
        minimise(question, answer, order[~needed[order]])
        if holds_exocet(question):
            return question, answer
