"""The generator's solver of 9×9 boards: solutions and guesses under several rules of branching; trial and error.

Every digit holds its places as words of bits. A band is a row of boxes, and a word of 27 bits says where a digit may
stand in it: cell i has bit i % 27 of band i // 27. A block is a band or a stack. A pattern of 9 bits says which lines
and boxes of a block a digit may take: bit 3i + k is line i of box k.

Naked and hidden singles, locked candidates and triples are drawn to a fixpoint; then a rule names a candidate to guess,
or a crossing of a line and a box for a digit; a guess that fails is struck out. A state is (9, 12) uint32, for every
digit: its places in three bands, those alone in their box, its patterns in three bands and three stacks. Conversions to
int64 and index loops make the code fast.
"""

from __future__ import annotations

from itertools import permutations

import numpy as np

from datasets_gen.compiled import compiled
from datasets_gen.sudoku.tables import geometry

CELL, BAND, MIXED = range(3)  # rules of branching
NO_CAP = 1 << 40
PASSES = 8  # of trial and error, over which the candidates that it leaves are averaged
NOTHING = np.empty((0, 9, 3), np.uint32)  # what `search` gets where the solutions need not be noted
STRIDES = np.array([5, 7, 11, 13, 17, 19, 23, 25, 29, 31, 35, 37, 41, 43, 47, 49], np.int64)  # coprime to 324

# Tables by a row or a pattern, both of 9 bits
ROWS = np.arange(512)
BITS = np.bitwise_count(ROWS).astype(np.uint8)
TOUCHED = [((ROWS >> 3 * stack & 7) > 0) << stack for stack in range(3)]
STACKS = np.bitwise_or.reduce(TOUCHED).astype(np.uint8)  # boxes that a row touches
CROWDED = np.bitwise_or.reduce([(BITS[ROWS & 7 << 3 * stack] > 1) << stack for stack in range(3)]).astype(np.uint8)
BOX = 0o007007007  # the box in stack 0 of a band
ALL = (1 << 27) - 1  # the cells of a band


def _rivals(entry: int) -> int:
    """The entries in the same line or box of a block as an entry."""
    line, box = divmod(entry, 3)
    return (0o007 << 3 * line | 0o111 << box) & ~(1 << entry)


def _lone(lines: int) -> np.ndarray:
    """The entries of every pattern that have no rival among `lines` of their own."""
    own = [lines << (e % 3 if lines == 0o111 else 3 * (e // 3)) for e in range(9)]
    return np.bitwise_or.reduce([np.where(ROWS & _rivals(e) & own[e] == 0, ROWS & 1 << e, 0) for e in range(9)])


ALONE = (_lone(0o111) | _lone(0o007)).astype(np.uint16)  # entries that are alone in their box or line
FORCED = np.bitwise_and.reduce([np.where(ROWS >> e & 1, 511 & ~_rivals(e), 511) for e in range(9)]).astype(np.uint16)
PLACES = [(ROWS >> e & 1) * (7 << 9 * (e // 3) + 3 * (e % 3)) for e in range(9)]
SPREAD = np.bitwise_or.reduce(PLACES).astype(np.uint32)  # cells of a band
OPEN = np.array(
    [sum(BOX << 3 * k for k in range(3) if not taken >> k & 1) for taken in range(8)], np.uint32
)  # boxes of a band but some

# In a block a digit takes one line of every box, and in every box another: a permutation. An entry that no permutation
# uses falls away; these are the locked candidates.
WAYS = np.array([sum(1 << 3 * line + box for line, box in enumerate(way)) for way in permutations(range(3))])
HELD = ROWS[:, None] & WAYS == WAYS
CLOSED = np.bitwise_or.reduce(np.where(HELD, WAYS, 0), axis=1).astype(np.uint16)  # what permutations leave of a pattern
FILLINGS = HELD.sum(1).astype(np.uint8)  # how many permutations a pattern holds

# Words, one per band, of the cells of every row, then column, then box, and of the cells that share a unit with a cell
CELLS, UNITS = np.arange(81)[:, None], geometry(9).units
BIT = np.where(np.arange(3) == CELLS // 27, 1 << CELLS % 27, 0).astype(np.uint32)  # (81, 3)
WORDS, PEERS = (np.bitwise_or.reduce(BIT[cells], axis=1) for cells in (UNITS, geometry(9).peers))


@compiled
def _pattern(places):
    """The entries of the pattern of a digit's places in a band that a permutation uses."""
    return np.int64(CLOSED[STACKS[places & 511] | STACKS[places >> 9 & 511] << 3 | STACKS[places >> 18] << 6])


@compiled
def _columns(places):
    """The columns that a digit may take in a band."""
    return (places | places >> 9 | places >> 18) & 511


@compiled
def _turned(first, second, third):
    """Columns that a digit may take, of three bands: the patterns of three stacks; and the other way round."""
    return (
        first & 7 | (second & 7) << 3 | (third & 7) << 6,
        first >> 3 & 7 | second & 56 | (third & 56) << 3,
        first >> 6 | second >> 3 & 56 | third & 448,
    )


@compiled
def _alone(places):
    """The places of a digit in a band that are alone in their box."""
    first, second, third = places & 511, places >> 9 & 511, places >> 18
    twice = first & second | (first | second) & third
    return places & np.int64(OPEN[STACKS[twice] | CROWDED[first | second | third]])


@compiled
def _close(state, digit):
    """Locked candidates of one digit to a fixpoint, and its lone places; False where a band has no place for it."""
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
        top, centre, bottom = (
            top & kept[0] * 0o001001001,
            centre & kept[1] * 0o001001001,
            bottom & kept[2] * 0o001001001,
        )
    state[digit, 0], state[digit, 1], state[digit, 2] = top, centre, bottom
    state[digit, 3], state[digit, 4], state[digit, 5] = _alone(top), _alone(centre), _alone(bottom)
    state[digit, 6], state[digit, 7], state[digit, 8] = upper, inner, lower
    state[digit, 9], state[digit, 10], state[digit, 11] = left, middle, right
    return True


@compiled
def _deduce(state, dirty):
    """Draw every single, locked candidate and triple; False where a contradiction shows.

    dirty has a bit for every digit that lost a place since it was closed.
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
    """Strike out a digit's places in a block that lie outside a pattern."""
    if block < 3:
        state[digit, block] = np.int64(state[digit, block]) & np.int64(SPREAD[pattern])
        return
    shift = 3 * (block - 3)
    for band in range(3):
        columns = (pattern >> 3 * band & 7) << shift
        state[digit, band] = np.int64(state[digit, band]) & (columns | columns << 9 | columns << 18 | ~(BOX << shift))


@compiled
def _triples(state):
    """Strike out by triples, once: in the crossing of a line and a box, as many digits as it has cells.

    Where no other digit may stand in the crossing, these stand nowhere else in the line and the box; where these have
    no other place in the line, or none in the box, no other digit stands in the crossing. Returns a bit for every digit
    that lost a place, -1 for a contradiction.
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
def _count(state, counts):
    """counts[k, band] (n + 2, 3): the cells with at least k candidates; True where one has two."""
    for band in range(3):
        a1 = a2 = a3 = a4 = np.int64(0)
        for digit in range(9):
            places = np.int64(state[digit, band])
            a1, a2, a3, a4 = a1 | places, a2 | a1 & places, a3 | a2 & places, a4 | a3 & places
        counts[2, band], counts[3, band], counts[4, band] = a2, a3, a4
    return counts[2, 0] | counts[2, 1] | counts[2, 2] != 0


@compiled
def _ones(word):
    return np.int64(BITS[word & 511]) + BITS[word >> 9 & 511] + BITS[word >> 18]


@compiled
def _choose_cell(state, counts):
    """A cell with the fewest candidates, and of these the most open neighbours that share them."""
    few, exact = 1, np.zeros(3, np.int64)
    while exact[0] | exact[1] | exact[2] == 0:
        few += 1
        for band in range(3):
            exact[band] = counts[few, band] & ~counts[few + 1, band]
    best, chosen, most = -1, -1, -1
    for cell in range(81):
        band, bit = cell // 27, 1 << cell % 27
        if exact[band] & bit == 0:
            continue
        first, score = -1, 0
        near, middle, far = np.int64(0), np.int64(0), np.int64(0)
        for digit in range(9):
            if np.int64(state[digit, band]) & bit:
                first = digit
                near, middle, far = near | state[digit, 0], middle | state[digit, 1], far | state[digit, 2]
        for other in range(3):
            sharing = near if other == 0 else middle if other == 1 else far
            sharing &= np.int64(PEERS[cell, other]) & counts[2, other]
            score += _ones(sharing) + 3 * _ones(sharing & ~counts[3, other])
        if score > most:
            best, chosen, most = cell, first, score
    return best, chosen


@compiled
def _choose_band(state):
    """In the block that can be filled in the fewest ways, of the digit with the fewest, an open crossing.

    Returns 81 + 9 block + entry, and the digit; -1 where every crossing is settled.
    """
    block, fewest = -1, np.int64(1000)
    for each in range(6):
        ways = np.int64(0)
        for digit in range(9):
            ways += FILLINGS[state[digit, 6 + each]]
        if 9 < ways < fewest:
            block, fewest = each, ways
    if block < 0:
        return -1, -1
    chosen, fewest = -1, np.int64(1000)
    for digit in range(9):
        ways = np.int64(FILLINGS[state[digit, 6 + block]])
        if 1 < ways < fewest:
            chosen, fewest = digit, ways
    pattern, entry = np.int64(state[chosen, 6 + block]), 0
    pattern &= ~np.int64(ALONE[pattern])
    while pattern >> entry & 1 == 0:
        entry += 1
    return 81 + 9 * block + entry, chosen


@compiled
def _choose_mixed(state, counts, seed):
    """At random a cell with two candidates, or a digit with two places in a unit; failing that, three, then four."""
    at, stride = (seed >> 33 & 0xFFFFFF) % 324, STRIDES[seed >> 59 & 15]
    for few in range(2, 5):
        for _ in range(324):
            at += stride
            at -= 324 if at >= 324 else 0
            if at < 81:
                band, bit = at // 27, 1 << at % 27
                if counts[few, band] & ~counts[few + 1, band] & bit:
                    digit = 0
                    while np.int64(state[digit, band]) & bit == 0:
                        digit += 1
                    return at, digit
                continue
            unit, digit = (at - 81) // 9, (at - 81) % 9
            places = np.int64(state[digit, 0] & WORDS[unit, 0])
            places |= np.int64(state[digit, 1] & WORDS[unit, 1]) << 27
            places |= np.int64(state[digit, 2] & WORDS[unit, 2]) << 1
            for _ in range(1, few):
                places &= places - 1
            if places and places & (places - 1) == 0:
                k = 8
                while state[digit, UNITS[unit, k] // 27] >> UNITS[unit, k] % 27 & 1 == 0:
                    k -= 1
                return np.int64(UNITS[unit, k]), digit
    return -1, -1


@compiled
def _is_new(state, seen):
    """Is a place left that was not seen in two solutions? Always yes where nothing is noted."""
    for digit in range(9):
        for band in range(3):
            if len(seen) == 0 or state[digit, band] & ~seen[1, digit, band]:
                return True
    return False


@compiled
def _read(state, board):
    """The places that the clues leave to every digit. A value 9 + d bars the digit d from a cell."""
    state[:, :3] = ALL
    for cell in range(81):
        for digit in range(9 if board[cell] else 0):
            if (digit == (board[cell] - 1) % 9) != (board[cell] <= 9):
                _strike(state, cell, digit)


@compiled
def _strike(state, cell, digit):
    """Strike out one candidate."""
    state[digit, cell // 27] &= ~np.uint32(1 << cell % 27)


@compiled
def _assume(state, cell, digit):
    """Strike out the places of a digit in its band that a cell shares a unit with."""
    state[digit, cell // 27] &= ~PEERS[cell, cell // 27]


@compiled
def search(board, rule, limit, cap, seed, seen):
    """(solutions found, at most `limit`; guesses made, at most `cap`; guesses that the last solution rests on).

    board (81,): as `_read` takes it. seen (2, 9, 3) uint32, or (0, 9, 3): the places of every digit in one solution or
    more and in two or more are noted there, and branches that can add nothing are left out.
    """
    state = np.zeros((9, 12), np.uint32)
    saved = np.empty((162, 9, 12), np.uint32)
    guessed = np.empty((162, 2), np.int64)
    counts = np.zeros((6, 3), np.int64)
    _read(state, board)
    depth, found, guesses, height, dirty = 0, 0, 0, 0, 511
    while True:
        at, digit = -1, -1
        if _deduce(state, dirty) and _is_new(state, seen):
            if rule == BAND:
                at, digit = _choose_band(state)
            if at < 0 and _count(state, counts):
                if rule == MIXED:
                    seed = seed * 6364136223846793005 + 1442695040888963407
                    at, digit = _choose_mixed(state, counts, seed)
                if at < 0:
                    at, digit = _choose_cell(state, counts)
            if at < 0:
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
            saved[depth] = state
            guessed[depth, 0], guessed[depth, 1] = at, digit
            depth += 1
            if at >= 81:
                _restrict(state, digit, (at - 81) // 9, np.int64(FORCED[1 << (at - 81) % 9]))
            else:
                _assume(state, at, digit)
        elif depth == 0:
            return found, guesses, height
        else:
            depth -= 1
            at, digit = guessed[depth, 0], guessed[depth, 1]
            state[:] = saved[depth]
            if at >= 81:
                _restrict(state, digit, (at - 81) // 9, 511 ^ 1 << (at - 81) % 9)
            else:
                _strike(state, at, digit)
        dirty = 1 << digit


@compiled
def endurance(board, solution, bound):
    """Wrong candidates of a board (81,) that a pass of trial and error leaves, mean of `PASSES`; -1 below `bound`.

    A pass assumes every candidate that is not in the solution (81,), from one state, and strikes out at once all of
    those that the rules above refute. It falls only gradually from puzzles that need more than that to others.
    """
    total = 0
    state, assumed = np.zeros((9, 12), np.uint32), np.empty((9, 12), np.uint32)
    refuted = np.empty((9, 3), np.uint32)
    _read(state, board)
    _deduce(state, 511)
    for after in range(PASSES - 1, -1, -1):
        left, dirty = 0, 0
        refuted[:] = 0
        for cell in range(81):
            band, bit = cell // 27, np.uint32(1 << cell % 27)
            for digit in range(9):
                if digit == solution[cell] - 1 or np.int64(state[digit, band]) & np.int64(bit) == 0:
                    continue
                assumed[:] = state
                _assume(assumed, cell, digit)
                if _deduce(assumed, 1 << digit):
                    left += 1
                else:
                    refuted[digit, band] |= bit
                    dirty |= 1 << digit
        total += left
        if total + left * after < bound * PASSES:
            return -1.0
        if dirty == 0:
            return (total + left * after) / PASSES
        for digit in range(9):
            for band in range(3):
                state[digit, band] &= ~refuted[digit, band]
        _deduce(state, dirty)
    return total / PASSES


@compiled
def minimise(board, solution, order):
    """Blank the cells of `board` (81,) in place, in the given order, where one solution remains."""
    nothing = np.empty((0, 9, 3), np.uint32)
    for cell in order:
        if board[cell]:
            board[cell] = 9 + solution[cell]
            board[cell] = solution[cell] if search(board, BAND, 1, NO_CAP, 0, nothing)[0] else 0


def the_solution(board: np.ndarray) -> np.ndarray:
    """The solution (81,) of a board that has exactly one."""
    return _seen(board, 1, NO_CAP)[0].argmax(0).astype(np.uint8) + 1


def completions(board: np.ndarray, cap: int) -> np.ndarray:
    """Clues (K, 2) of cell and digit, each of which alone leaves one solution to a board (81,) that has several.

    These are the digits that stand in their cell in exactly one solution. Empty where the search for all solutions
    takes `cap` guesses.
    """
    once, twice, guesses = _seen(board, np.iinfo(np.int64).max, cap)
    if guesses == cap:
        return np.empty((0, 2), np.int64)
    return np.argwhere((once & ~twice).T) + np.array([0, 1])


def _seen(board: np.ndarray, limit: int, cap: int) -> tuple[np.ndarray, np.ndarray, int]:
    """(9, 81) bool: the digits that stand in a cell in one solution or more, in two or more; and the guesses made."""
    seen, cells = np.zeros((2, 9, 3), np.uint32), np.arange(81)
    guesses = search(board, BAND, limit, cap, 0, seen)[1]
    once, twice = seen[:, :, cells // 27] >> cells % 27 & 1 > 0
    return once, twice, guesses
