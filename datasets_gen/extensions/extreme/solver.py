"""The generator's solver of 9×9 boards: all solutions, and trial and error.

The possible places of a digit are bits. A band is a row of boxes; a word of 27 bits has the places of a digit in it:
cell i is bit i % 27 of band i // 27. A block is a band or a stack. A pattern of 9 bits says in which line and box of
a block a digit is still possible: bit 3i + k is line i of box k.

Naked and hidden singles, locked candidates and triples are applied to a fixpoint. Then a guess chooses the line of a
digit in a box. If a guess leads to a contradiction, its candidate is removed. A state is (9, 12) uint32; each digit has
its places in three bands, its only places in a box, and its patterns in three bands and three stacks. Conversions to
int64 and index loops make the code fast, three to ten times as fast on hard boards as the solver of all sizes.
"""

from __future__ import annotations

from itertools import permutations

import numpy as np

from datasets_gen.compiled import compiled
from datasets_gen.sudoku.tables import geometry

NO_CAP = 1 << 40  # of solutions or of guesses
PASSES = 8  # passes of trial and error, whose remaining candidates are averaged

# Tables by a row or a pattern, both of 9 bits
ROWS = np.arange(512)
BITS = np.bitwise_count(ROWS)
TOUCHED = [((ROWS >> 3 * stack & 7) > 0) << stack for stack in range(3)]
STACKS = np.bitwise_or.reduce(TOUCHED).astype(np.uint8)  # boxes that a row uses
CROWDED = np.bitwise_or.reduce([(BITS[ROWS & 7 << 3 * stack] > 1) << stack for stack in range(3)]).astype(np.uint8)
BOX, COLUMN = 0o007007007, 0o001001001  # the box in stack 0 and the first column of a band
ALL = (1 << 27) - 1  # the cells of a band


def _rivals(entry: int) -> int:
    """Return the entries in the same line or box of a block as an entry."""
    line, box = divmod(entry, 3)
    return (0o007 << 3 * line | 0o111 << box) & ~(1 << entry)


def _lone(lines: int) -> np.ndarray:
    """Return the entries of each pattern without a rival in their line or box, as selected by `lines`."""
    unit = [lines << (e % 3 if lines == 0o111 else 3 * (e // 3)) for e in range(9)]
    return np.bitwise_or.reduce([np.where(ROWS & _rivals(e) & unit[e] == 0, ROWS & 1 << e, 0) for e in range(9)])


ALONE = (_lone(0o111) | _lone(0o007)).astype(np.uint16)  # entries that are alone in their box or line
FORCED = np.bitwise_and.reduce([np.where(ROWS >> e & 1, 511 & ~_rivals(e), 511) for e in range(9)]).astype(np.uint16)
PLACES = [(ROWS >> e & 1) * (7 << 9 * (e // 3) + 3 * (e % 3)) for e in range(9)]
SPREAD = np.bitwise_or.reduce(PLACES).astype(np.uint32)  # cells of a band
# The cells of a band outside some boxes
OPEN = np.array([sum(BOX << 3 * k for k in range(3) if not taken >> k & 1) for taken in range(8)], np.uint32)

# In a block, a digit takes a different line in each box: a permutation. Entries that no permutation uses are removed;
# these are the locked candidates.
WAYS = np.array([sum(1 << 3 * line + box for line, box in enumerate(way)) for way in permutations(range(3))])
HELD = ROWS[:, None] & WAYS == WAYS
CLOSED = np.bitwise_or.reduce(np.where(HELD, WAYS, 0), axis=1).astype(np.uint16)  # entries that a permutation uses
FILLINGS = HELD.sum(1).astype(np.uint8)  # the number of permutations in a pattern

# Words, one per band, of the cells that share a unit with a cell
BIT = np.where(np.arange(3) == np.arange(81)[:, None] // 27, 1 << np.arange(81)[:, None] % 27, 0).astype(np.uint32)
PEERS = np.bitwise_or.reduce(BIT[geometry(9).peers], axis=1)  # (81, 3)


@compiled
def _pattern(places):
    """Return the entries of the pattern of a digit's places in a band that a permutation uses."""
    return np.int64(CLOSED[STACKS[places & 511] | STACKS[places >> 9 & 511] << 3 | STACKS[places >> 18] << 6])


@compiled
def _columns(places):
    """Return the columns that a digit may take in a band."""
    return (places | places >> 9 | places >> 18) & 511


@compiled
def _turned(first, second, third):
    """Convert columns of three bands to the patterns of three stacks, or the reverse."""
    return (
        first & 7 | (second & 7) << 3 | (third & 7) << 6,
        first >> 3 & 7 | second & 56 | (third & 56) << 3,
        first >> 6 | second >> 3 & 56 | third & 448,
    )


@compiled
def _alone(places):
    """Return the places of a digit in a band that are the only ones in their box."""
    first, second, third = places & 511, places >> 9 & 511, places >> 18
    twice = first & second | (first | second) & third
    return places & np.int64(OPEN[STACKS[twice] | CROWDED[first | second | third]])


@compiled
def _close(state, digit):
    """Apply locked candidates and single places of a digit to a fixpoint; returns False if a band has no place."""
    top, centre, bottom = np.int64(state[digit, 0]), np.int64(state[digit, 1]), np.int64(state[digit, 2])
    while True:
        upper, inner, lower = _pattern(top), _pattern(centre), _pattern(bottom)
        top, centre, bottom = top & SPREAD[upper], centre & SPREAD[inner], bottom & SPREAD[lower]
        if top == 0 or centre == 0 or bottom == 0:
            return False
        before = _turned(_columns(top), _columns(centre), _columns(bottom))
        left, middle, right = CLOSED[before[0]], CLOSED[before[1]], CLOSED[before[2]]
        if left == before[0] and middle == before[1] and right == before[2]:
            break
        if left == 0 or middle == 0 or right == 0:
            return False
        kept = _turned(np.int64(left), np.int64(middle), np.int64(right))
        top, centre, bottom = top & kept[0] * COLUMN, centre & kept[1] * COLUMN, bottom & kept[2] * COLUMN
    state[digit, 0], state[digit, 1], state[digit, 2] = top, centre, bottom
    state[digit, 3], state[digit, 4], state[digit, 5] = _alone(top), _alone(centre), _alone(bottom)
    state[digit, 6], state[digit, 7], state[digit, 8] = upper, inner, lower
    state[digit, 9], state[digit, 10], state[digit, 11] = left, middle, right
    return True


@compiled
def _deduce(state, dirty):
    """Apply singles, locked candidates and triples to a fixpoint; returns False on a contradiction.

    dirty has a bit for each digit that lost a place since `_close`.
    """
    while True:
        digit = 0
        while dirty:
            if dirty & 1 and not _close(state, digit):
                return False
            dirty >>= 1
            digit += 1
        for band in range(3):
            once = twice = taken = clash = np.int64(0)
            for digit in range(9):
                places, alone = np.int64(state[digit, band]), np.int64(state[digit, 3 + band])
                once, twice = once | places, twice | once & places
                taken, clash = taken | alone, clash | taken & alone
            if clash or once != ALL:
                return False
            naked, shared = once & ~(twice | taken), twice & taken
            if naked | shared == 0:
                continue
            for digit in range(9):
                places = np.int64(state[digit, band])
                kept = places & ~(shared & ~np.int64(state[digit, 3 + band]))
                single = places & naked
                if single:
                    if single != _alone(single):
                        return False
                    kept &= single | np.int64(OPEN[STACKS[_columns(single)]])
                if kept != places:
                    state[digit, band] = kept
                    dirty |= 1 << digit
        if dirty == 0:
            dirty = _triples(state)
        if dirty <= 0:
            return dirty == 0


@compiled
def _restrict(state, digit, block, pattern):
    """Remove a digit's places in a block that lie outside a pattern."""
    if block < 3:
        state[digit, block] = np.int64(state[digit, block]) & np.int64(SPREAD[pattern])
        return
    shift = 3 * (block - 3)
    for band in range(3):
        columns = (pattern >> 3 * band & 7) << shift
        state[digit, band] = np.int64(state[digit, band]) & (columns | columns << 9 | columns << 18 | ~(BOX << shift))


@compiled
def _triples(state):
    """Remove candidates by triples, once: the crossing of a line and a box has as many digits as cells.

    If no other digit is possible in the crossing, these are impossible elsewhere in the line and the box. If these have
    no other place in the line, or none in the box, no other digit is possible in the crossing. Returns a bit for each
    digit that lost a place, -1 for a contradiction.
    """
    dirty = 0
    for block in range(6):
        a1 = a2 = a3 = a4 = b1 = b2 = b3 = b4 = np.int64(0)
        for digit in range(9):
            pattern = np.int64(state[digit, 6 + block])
            locked = np.int64(ALONE[pattern])
            a1, a2, a3, a4 = a1 | pattern, a2 | a1 & pattern, a3 | a2 & pattern, a4 | a3 & pattern
            b1, b2, b3, b4 = b1 | locked, b2 | b1 & locked, b3 | b2 & locked, b4 | b3 & locked
        if a1 & ~a3 or b4:
            return -1
        exact, crowded = a3 & ~a4, b3
        for digit in range(9):
            pattern = np.int64(state[digit, 6 + block])
            kept = pattern & np.int64(FORCED[pattern & exact]) & ~(crowded & ~np.int64(ALONE[pattern]))
            if kept != pattern:
                _restrict(state, digit, block, kept)
                dirty |= 1 << digit
    return dirty


@compiled
def _choose(state):
    """Choose a guess: an open line of a box, in the block and for the digit with the fewest permutations.

    Returns the block, the digit and the entry of its pattern; -1 if the board is solved.
    """
    block, fewest = -1, np.int64(1000)
    for each in range(6):
        ways = np.int64(0)
        for digit in range(9):
            ways += FILLINGS[state[digit, 6 + each]]
        if 9 < ways < fewest:
            block, fewest = each, ways
    if block < 0:
        return -1, -1, -1
    chosen, fewest = -1, np.int64(1000)
    for digit in range(9):
        ways = np.int64(FILLINGS[state[digit, 6 + block]])
        if 1 < ways < fewest:
            chosen, fewest = digit, ways
    pattern, entry = np.int64(state[chosen, 6 + block]), 0
    pattern &= ~np.int64(ALONE[pattern])
    while pattern >> entry & 1 == 0:
        entry += 1
    return block, chosen, entry


@compiled
def _read(state, board):
    """Write the places that the clues leave to each digit to state[:, :3]. A value 9 + d excludes d from a cell."""
    state[:, :3] = ALL
    for cell in range(81):
        for digit in range(9 if board[cell] else 0):
            if (digit == (board[cell] - 1) % 9) != (board[cell] <= 9):
                state[digit, cell // 27] &= ~np.uint32(1 << cell % 27)


@compiled
def search(board, limit, cap, seen):
    """Return the numbers of solutions (at most `limit`) and guesses (at most `cap`) of a board (81,) for `_read`.

    seen (2, 9, 3) uint32 receives the places of each digit in at least one and at least two solutions; branches that
    cannot add places are skipped.
    """
    state, saved = np.zeros((9, 12), np.uint32), np.empty((162, 9, 12), np.uint32)
    guessed = np.empty((162, 3), np.int64)
    depth, found, guesses, dirty = 0, 0, 0, 511
    _read(state, board)
    while True:
        block = -1
        if _deduce(state, dirty) and np.any(state[:, :3] & ~seen[1]):
            block, digit, entry = _choose(state)
            if block < 0:
                found += 1
                seen[1] |= seen[0] & state[:, :3]
                seen[0] |= state[:, :3]
        if found == limit or (depth == 0 and block < 0) or (block >= 0 and guesses == cap):
            return found, guesses
        if block >= 0:
            guesses += 1
            saved[depth] = state
            guessed[depth, 0], guessed[depth, 1], guessed[depth, 2] = block, digit, entry
            depth += 1
            _restrict(state, digit, block, np.int64(FORCED[1 << entry]))
        else:
            depth -= 1
            block, digit, entry = guessed[depth, 0], guessed[depth, 1], guessed[depth, 2]
            state[:] = saved[depth]
            _restrict(state, digit, block, 511 ^ 1 << entry)
        dirty = 1 << digit


@compiled
def minimise(board, solution, order):
    """Blank the cells of `board` (81,) in place, in this order, if one solution remains."""
    for cell in order:
        if board[cell]:
            board[cell] = 9 + solution[cell]
            others = search(board, 1, NO_CAP, np.zeros((2, 9, 3), np.uint32))[0]
            board[cell] = solution[cell] if others else 0


@compiled
def endurance(board, solution):
    """Return the number of wrong candidates of a board (81,) that a pass of trial and error leaves, mean of `PASSES`.

    A pass assumes each candidate that is not in the solution (81,), from one state, and then removes all those that the
    rules above refute. The number changes gradually between puzzles that need more than this and others.
    """
    state, assumed = np.zeros((9, 12), np.uint32), np.empty((9, 12), np.uint32)
    _read(state, board)
    _deduce(state, 511)
    total, left, dirty = 0, 0, 511
    for _ in range(PASSES):
        if dirty:
            left, dirty, refuted = 0, 0, np.zeros((9, 3), np.uint32)
            for cell in range(81):
                band, bit = cell // 27, np.uint32(1 << cell % 27)
                for digit in range(9):
                    if digit == solution[cell] - 1 or np.int64(state[digit, band]) & np.int64(bit) == 0:
                        continue
                    assumed[:] = state
                    assumed[digit, band] &= ~PEERS[cell, band]
                    if _deduce(assumed, 1 << digit):
                        left += 1
                    else:
                        refuted[digit, band] |= bit
                        dirty |= 1 << digit
            state[:, :3] &= ~refuted
            _deduce(state, dirty)
        total += left
    return total / PASSES


def solutions(board: np.ndarray, limit: int = NO_CAP, cap: int = NO_CAP) -> tuple[np.ndarray, bool]:
    """Return (2, 81, 9) bool: digits of a cell in at least one and at least two solutions; and whether these are all.

    The search ends after `limit` solutions or `cap` guesses.
    """
    seen, cells = np.zeros((2, 9, 3), np.uint32), np.arange(81)
    guesses = search(board, limit, cap, seen)[1]
    return (seen[:, :, cells // 27] >> cells % 27 & 1 > 0).swapaxes(1, 2), guesses < cap
