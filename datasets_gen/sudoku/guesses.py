"""How many guesses a puzzle needs, under several rules of branching.

A second solver: every digit holds a word of bits per band, its places. Naked and hidden singles, locked candidates and
triples are drawn to a fixpoint; then a rule names a candidate to guess, or a crossing of a line and a box for a digit;
a guess that fails is struck out. A state is (n, 12) uint32, for every digit: its places in three bands, those alone in
their box, its patterns in three bands and three stacks. Conversions to int64 and index loops make the code fast.
"""

from __future__ import annotations

import numpy as np

from datasets_gen.compiled import compiled
from datasets_gen.sudoku.patterns import ALONE, BITS, BOX, FORCED, SPREAD, STACKS

CELL, BAND, MIXED = range(3)  # rules of branching
NO_CAP = 1 << 40
STRIDES = np.array([5, 7, 11, 13, 17, 19, 23, 25, 29, 31, 35, 37, 41, 43, 47, 49], np.int64)  # coprime to 4n²


@compiled
def _close(state, digit, table):
    """Locked candidates of one digit to a fixpoint, and its lone places; False where a band has no place for it."""
    cells, closed = table.cells, table.closed
    while True:
        left, middle, right = np.int64(0), np.int64(0), np.int64(0)
        for band in range(3):
            places = np.int64(state[digit, band])
            pattern = STACKS[places & 511] | STACKS[places >> 9 & 511] << 3 | STACKS[places >> 18] << 6
            places &= np.int64(SPREAD[closed[0, pattern]])
            if places == 0 and cells[band]:
                return False
            state[digit, band] = places
            state[digit, 6 + band] = closed[0, pattern]
            columns = (places | places >> 9 | places >> 18) & 511
            left |= (columns & 7) << 3 * band
            middle |= (columns >> 3 & 7) << 3 * band
            right |= (columns >> 6) << 3 * band
        kept_left, kept_middle, kept_right = closed[1, left], closed[1, middle], closed[1, right]
        if kept_left == left and kept_middle == middle and kept_right == right:
            break
        if kept_left == 0 or kept_middle == 0 or (kept_right == 0 and right):
            return False
        left, middle, right = np.int64(kept_left), np.int64(kept_middle), np.int64(kept_right)
        for band in range(3):
            columns = (left >> 3 * band & 7) | (middle >> 3 * band & 7) << 3 | (right >> 3 * band & 7) << 6
            state[digit, band] = np.int64(state[digit, band]) & (columns | columns << 9 | columns << 18)
    for band in range(3):
        places, alone = np.int64(state[digit, band]), np.int64(0)
        for stack in range(3):
            here = places & BOX << 3 * stack
            if here & (here - 1) == 0:
                alone |= here
        state[digit, 3 + band] = alone
    state[digit, 9], state[digit, 10], state[digit, 11] = left, middle, right
    return True


@compiled
def _deduce(state, dirty, table):
    """Draw every single, locked candidate and triple; False where a contradiction shows.

    dirty has a bit for every digit that lost a place since it was closed.
    """
    cells, digits = table.cells, len(state)
    while True:
        digit = 0
        while dirty:
            if dirty & 1 and not _close(state, digit, table):
                return False
            dirty >>= 1
            digit += 1
        for band in range(3):
            once, twice, taken, clash = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
            for digit in range(digits):
                places, alone = np.int64(state[digit, band]), np.int64(state[digit, 3 + band])
                twice |= once & places
                once |= places
                clash |= taken & alone
                taken |= alone
            if clash or once != np.int64(cells[band]):
                return False
            naked, shared = once & ~(twice | taken), twice & taken
            if naked | shared == 0:
                continue
            for digit in range(digits):
                places = np.int64(state[digit, band])
                kept = places & ~(shared & ~np.int64(state[digit, 3 + band]))
                if places & naked:
                    for stack in range(3):
                        box = BOX << 3 * stack
                        single = places & naked & box
                        if single & (single - 1):
                            return False
                        if single:
                            kept &= ~box | single
                if kept != places:
                    state[digit, band] = kept
                    dirty |= 1 << digit
        if dirty == 0:
            dirty = _triples(state, table)
        if dirty <= 0:
            return dirty == 0


@compiled
def _restrict(state, digit, block, pattern):
    """Strike out a digit's places in a block that lie outside a pattern."""
    if block < 3:
        state[digit, block] = np.int64(state[digit, block]) & np.int64(SPREAD[pattern])
        return
    shift = 3 * (block - 3)
    for band in range(3):
        columns = (pattern >> 3 * band & 7) << shift
        state[digit, band] = np.int64(state[digit, band]) & (columns | columns << 9 | columns << 18 | ~(BOX << shift))


@compiled
def _triples(state, table):
    """Strike out by triples, once: in the crossing of a line and a box, as many digits as it has cells.

    Where no other digit may stand in the crossing, these stand nowhere else in the line and the box; where these have
    no other place in the line, or none in the box, no other digit stands in the crossing. Returns a bit for every digit
    that lost a place, -1 for a contradiction.
    """
    digits, dirty = len(state), 0
    for block in range(6):
        a1, a2, a3, a4 = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
        b1, b2, b3, b4 = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
        for digit in range(digits):
            pattern = np.int64(state[digit, 6 + block])
            locked = np.int64(ALONE[pattern])
            a4 |= a3 & pattern
            a3 |= a2 & pattern
            a2 |= a1 & pattern
            a1 |= pattern
            b4 |= b3 & locked
            b3 |= b2 & locked
            b2 |= b1 & locked
            b1 |= locked
        if table.sizes[block // 3] == 2:
            a4, a3, b4, b3 = a3, a2, b3, b2
        if a1 & ~a3 or b4:
            return -1
        exact, crowded = a3 & ~a4, b3
        for digit in range(digits):
            pattern = np.int64(state[digit, 6 + block])
            kept = pattern & np.int64(FORCED[pattern & exact]) & ~(crowded & ~np.int64(ALONE[pattern]))
            if kept != pattern:
                _restrict(state, digit, block, kept)
                dirty |= 1 << digit
    return dirty


@compiled
def _count(state, counts):
    """counts[k, band] (n + 2, 3): the cells with at least k candidates; True where one has two."""
    for band in range(3):
        a1, a2, a3, a4 = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
        for digit in range(len(state)):
            places = np.int64(state[digit, band])
            a4 |= a3 & places
            a3 |= a2 & places
            a2 |= a1 & places
            a1 |= places
        counts[2, band], counts[3, band], counts[4, band] = a2, a3, a4
    return counts[2, 0] | counts[2, 1] | counts[2, 2] != 0


@compiled
def _ones(word):
    return np.int64(BITS[word & 511]) + BITS[word >> 9 & 511] + BITS[word >> 18]


@compiled
def _choose_cell(state, counts, table):
    """Of the cells with the fewest candidates the one with the most open neighbours that share them."""
    band_of, bit_of, peers = table.band_of, table.bit_of, table.peers
    few, exact = 1, np.zeros(3, np.int64)
    while exact[0] | exact[1] | exact[2] == 0:
        few += 1
        for band in range(3):
            exact[band] = counts[few, band] & ~counts[few + 1, band]
    best, chosen, most = -1, -1, -1
    for cell in range(len(band_of)):
        band, bit = band_of[cell], np.int64(bit_of[cell])
        if exact[band] & bit == 0:
            continue
        first, score = -1, 0
        near, middle, far = np.int64(0), np.int64(0), np.int64(0)
        for digit in range(len(state)):
            if np.int64(state[digit, band]) & bit:
                first = digit
                near |= np.int64(state[digit, 0])
                middle |= np.int64(state[digit, 1])
                far |= np.int64(state[digit, 2])
        for other in range(3):
            sharing = near if other == 0 else middle if other == 1 else far
            sharing &= np.int64(peers[cell, other]) & counts[2, other]
            score += _ones(sharing) + 3 * _ones(sharing & ~counts[3, other])
        if score > most:
            best, chosen, most = cell, first, score
    return best, chosen


@compiled
def _choose_band(state, table):
    """In the block that can be filled in the fewest ways, of the digit with the fewest, an open crossing.

    Returns 81 + 9 block + entry, and the digit; -1 where every crossing is settled.
    """
    fillings, digits, block, fewest = table.fillings, len(state), -1, np.int64(1000)
    for each in range(6):
        ways = np.int64(0)
        for digit in range(digits):
            ways += fillings[each // 3, state[digit, 6 + each]]
        if digits < ways < fewest:
            block, fewest = each, ways
    if block < 0:
        return -1, -1
    chosen, fewest = -1, np.int64(1000)
    for digit in range(digits):
        ways = np.int64(fillings[block // 3, state[digit, 6 + block]])
        if 1 < ways < fewest:
            chosen, fewest = digit, ways
    pattern, entry = np.int64(state[chosen, 6 + block]), 0
    pattern &= ~np.int64(ALONE[pattern])
    while pattern >> entry & 1 == 0:
        entry += 1
    return 81 + 9 * block + entry, chosen


@compiled
def _choose_mixed(state, counts, seed, table):
    """At random a cell with two candidates or a digit with two places in a unit; where there is none, with three."""
    units, band_of, bit_of = table.units, table.band_of, table.bit_of
    digits, total = len(state), 4 * len(band_of)
    at, stride = (seed >> 33 & 0xFFFFFF) % total, STRIDES[seed >> 59 & 15]
    for few in range(2, 5):
        for _ in range(total):
            at += stride
            if at >= total:
                at -= total
            if at < len(band_of):
                band, bit = band_of[at], np.int64(bit_of[at])
                if counts[few, band] & ~counts[few + 1, band] & bit:
                    digit = 0
                    while np.int64(state[digit, band]) & bit == 0:
                        digit += 1
                    return at, digit
                continue
            unit, digit = divmod(at - len(band_of), digits)
            number, first = 0, np.int64(-1)
            for k in range(digits):
                cell = np.int64(units[unit, k])
                if np.int64(state[digit, band_of[cell]]) & np.int64(bit_of[cell]):
                    number += 1
                    first = cell
            if number == few:
                return first, digit
    return -1, -1


@compiled
def _is_new(state, seen):
    """Whether a place is left that was not seen in two solutions; always where nothing is noted."""
    for digit in range(len(state) if len(seen) else 0):
        for band in range(3):
            if state[digit, band] & ~seen[1, digit, band]:
                return True
    return len(seen) == 0


@compiled
def search(board, rule, limit, cap, seed, seen, table):
    """(solutions found, at most `limit`; guesses made, at most `cap`; guesses that the last solution rests on).

    board (S,): a value n + d bars the digit d from a cell. seen (2, n, 3) uint32, or (0, n, 3): the places of every
    digit in one solution or more and in two or more are noted there, and branches that can add nothing are left out.
    """
    digits, band_of, bit_of = table.units.shape[1], table.band_of, table.bit_of
    state = np.zeros((digits, 12), np.uint32)
    saved = np.empty((2 * len(board), digits, 12), np.uint32)
    guessed = np.empty((2 * len(board), 2), np.int64)
    counts = np.zeros((6, 3), np.int64)
    state[:, :3] = table.cells
    for cell in range(len(board)):
        for digit in range(digits if board[cell] else 0):
            if (digit == (board[cell] - 1) % digits) != (board[cell] <= digits):
                state[digit, band_of[cell]] &= ~bit_of[cell]
    dirty = (1 << digits) - 1
    depth, found, guesses, height = 0, 0, 0, 0
    while True:
        at, digit = -1, -1
        if _deduce(state, dirty, table) and _is_new(state, seen):
            if _count(state, counts):
                seed = seed * 6364136223846793005 + 1442695040888963407
                if rule == MIXED:
                    at, digit = _choose_mixed(state, counts, seed, table)
                elif rule == BAND:
                    at, digit = _choose_band(state, table)
                if at < 0:
                    at, digit = _choose_cell(state, counts, table)
            else:
                found, height = found + 1, depth
                if len(seen):
                    seen[1] |= seen[0] & state[:, :3]
                    seen[0] |= state[:, :3]
                if found == limit:
                    return found, guesses, height
        if at >= 0:
            if guesses == cap:
                return found, guesses, height
            guesses += 1
            for k in range(digits):
                for j in range(12):
                    saved[depth, k, j] = state[k, j]
            guessed[depth, 0], guessed[depth, 1] = at, digit
            depth += 1
            if at >= 81:
                _restrict(state, digit, (at - 81) // 9, np.int64(FORCED[1 << (at - 81) % 9]))
            for stack in range(3 if at < 81 else 0):
                box, band, bit = BOX << 3 * stack, band_of[at], np.int64(bit_of[at])
                if bit & box:
                    state[digit, band] = np.int64(state[digit, band]) & ~box | bit
        elif depth == 0:
            return found, guesses, height
        else:
            depth -= 1
            at, digit = guessed[depth, 0], guessed[depth, 1]
            for k in range(digits):
                for j in range(12):
                    state[k, j] = saved[depth, k, j]
            if at >= 81:
                _restrict(state, digit, (at - 81) // 9, 511 ^ 1 << (at - 81) % 9)
            else:
                state[digit, band_of[at]] &= ~bit_of[at]
        dirty = 1 << digit


@compiled
def minimise(board, solution, order, fewest, table):
    """Blank the cells of `board` (S,) in place, in the given order, where one solution remains, to `fewest` clues."""
    digits = table.units.shape[1]
    clues = (board > 0).sum()
    for cell in order:
        if board[cell] and clues > fewest:
            board[cell] = digits + solution[cell]
            board[cell] = solution[cell] if search(board, BAND, 1, NO_CAP, 0, table.nothing, table)[0] else 0
            clues -= board[cell] == 0
