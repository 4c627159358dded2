"""Hard Sudoku puzzles: a search from neighbour to neighbour in many independent lineages. (ours)

Random minimal puzzles almost never need 5 guesses. A lineage starts from one of them and keeps a small pool of its
hardest descendants. A neighbour has one clue in another place: {-1+1}; where all of these are known, one more clue is
added and those that are not needed go: {-1+2}. A member leaves the pool after `TRIED` {-1+2} moves. Fitness is what
the rule MIXED counts, as far as the fixed rules follow. A search that climbs on one fixed rule finds puzzles that are
hard for that rule alone; MIXED draws its guesses at random. Where few guesses lead to the solution, luck finds it, so
the depth counts too. Fitness is capped, so that a lineage drifts among hard puzzles instead of spending itself on one.
What a fixed rule finds much harder than MIXED is a way through the search, but is not given away.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from datasets_gen.parallel import seeded
from datasets_gen.sudoku.branching import MIXED, completions, minimise, the_solution, thin
from datasets_gen.sudoku.neighbours import WORK, take_from_a_solution
from datasets_gen.sudoku.rating import RULES, SCALES, combined, guesses, rule_guesses, shuffles
from datasets_gen.sudoku.signature import signatures
from datasets_gen.sudoku.solver import full_grid, size_of

ROOTS = 30  # random minimal puzzles, the hardest of which a lineage starts from
POOL = 8  # descendants kept
STEPS = 9000  # clues taken away by a lineage, at most
HOPES = {600: 4.5, 1600: 10.0, 3200: 15.0, 4800: 18.0}  # steps after which a lineage with a lower mean fitness ends
HARD = 20.0  # fitness
TRIED = 5  # {-1+2} moves, after which a member leaves the pool with the next child that enters it
ENOUGH = 5  # a lineage ends when so many times the puzzles that a split takes were hard when they entered its pool
HARVEST = 20  # of those that entered the pool the last so many times the puzzles that a split takes are rated
GLEANINGS = 32  # so many in all where the lineage ended for lack of hope
COUNTS = 8  # counts that a member's fitness is the mean of, at most
SHUFFLES = 64  # from which the shuffle of a count is drawn
TEMPERATURE = 0.25  # a child may be worse than the weakest member by the factor u**TEMPERATURE, u uniform on (0, 1)
CHILDREN = 8  # of one {-1+2} move, at most
PROMISE = 0.3  # share of the weakest member's fitness that a {-1+2} child needs before clues are taken away from it
SLACK = 1.4  # how much easier than for MIXED a puzzle may be for a fixed rule before its fitness falls
LEAD = 2.0  # how much harder, to be given away; 97 % of the real puzzles rated 15 or more are within it
CAP = 80.0  # fitness
DEPTH = 4.0  # guesses that a solution rests on, of which fewer lower the fitness


@dataclass(frozen=True)
class Lineage:
    """One task: the lineage that (seed, split, number) names."""

    size: int
    seed: int
    split: int
    number: int
    limit: int = 40  # puzzles that the split takes of it


class RatedPuzzles(NamedTuple):
    """N puzzles."""

    questions: np.ndarray  # (N, S) digits, 0 blank
    answers: np.ndarray  # (N, S)
    ratings: np.ndarray  # (N,)
    signatures: np.ndarray  # (N,) uint64

    def signed(self) -> Iterator[tuple[int, tuple[np.ndarray, np.ndarray, np.float64]]]:
        """(signature, (question, answer, rating)) of each."""
        puzzles = zip(self.questions, self.answers, self.ratings, strict=True)
        return zip(self.signatures.tolist(), puzzles, strict=True)


@dataclass
class _Member:
    question: np.ndarray
    answer: np.ndarray
    totals: list[float] = field(default_factory=lambda: [0.0] * len(RULES))  # weighted guesses under every rule
    counts: int = 0
    fitness: float = 0.0
    untried: list[int] | None = None  # clues that were not yet taken away
    wide: int = 0  # {-1+2} moves that started from it


def _count(member: _Member, rng: np.random.Generator, bound: float = 0.0) -> bool:
    """Count a member's guesses once under every rule; stops and returns False where one shows it below `bound`."""
    chosen = shuffles(size_of(member.question), SHUFFLES)[int(rng.random() * SHUFFLES)]
    found = []
    for rule, scale in zip(RULES, SCALES, strict=True):
        expected, depth = guesses(member.question, rule, chosen, int(2 * CAP / scale))
        weight = min(depth / DEPTH, 1) if rule == MIXED else SLACK
        found.append(min(scale * expected, CAP) * weight)
        if found[-1] < bound:
            return False
    member.totals = [total + new for total, new in zip(member.totals, found, strict=True)]
    member.counts += 1
    member.fitness = min(member.totals) / member.counts
    return True


def _children(parent: _Member, rng: np.random.Generator) -> tuple[list[np.ndarray], bool]:
    """Boards next to a parent, each with one solution, and whether they may hold clues that are not needed."""
    clues = np.flatnonzero(parent.question)
    if parent.untried is None:
        parent.untried = clues[rng.random(len(clues)).argsort()].tolist()
    wide = not parent.untried
    parent.wide += wide
    clue = int(clues[int(rng.random() * len(clues))]) if wide else parent.untried.pop()
    board = parent.question.copy()
    board[clue] = 0
    if wide:
        take_from_a_solution(board, parent.question, rng)
    found = completions(board, WORK)
    found = found[rng.random(len(found)).argsort()][: CHILDREN if wide else None]
    boards = []
    for cell, digit in found:
        if cell != clue or digit != parent.question[clue]:
            child = board.copy()
            child[cell] = digit
            boards.append(child)
    return boards, wide


def descend(lineage: Lineage) -> RatedPuzzles:
    """The puzzles that a lineage gives away, of those that entered its pool last.

    Puzzles that both fixed rules find easy beside MIXED come first. Puzzles that one finds much harder are dropped, and
    so is every neighbour of an earlier puzzle.
    """
    rng = seeded(lineage.seed, lineage.split, lineage.number, 1)
    pool = [_root(lineage.size, rng)]
    known = {pool[0].question.tobytes()}
    entered, rated, hard = [pool[0]], HARVEST * lineage.limit, 0
    for step in range(1, STEPS + 1):
        parent = pool[int(rng.random() * len(pool))]
        if parent.counts < COUNTS:
            _count(parent, rng)
        boards, wide = _children(parent, rng)
        for board in boards:
            if not _is_new(board, known):
                continue
            weakest = min(range(len(pool)), key=lambda index: pool[index].fitness)
            bound = pool[weakest].fitness * rng.random() ** TEMPERATURE if len(pool) == POOL else 0.0
            child = _minimal(board, bound, wide, known, rng)
            if child is None:
                continue
            if len(pool) < POOL:
                pool.append(child)
            else:
                tried = (index for index, member in enumerate(pool) if member.wide >= TRIED)
                pool[next(tried, weakest)] = child
            entered.append(child)
            hard += child.fitness >= HARD
        if step in HOPES and np.mean([member.fitness for member in pool]) < HOPES[step]:
            rated = GLEANINGS
            break
        if hard >= ENOUGH * lineage.limit:
            break
    questions = np.array([member.question for member in entered[-rated:]])
    answers = np.array([member.answer for member in entered[-rated:]])
    means = rule_guesses(questions)
    leads = lead(means)
    kept = leads.argsort(kind="stable")[: (leads <= LEAD).sum()]
    kept = kept[apart(questions[kept])]
    questions, answers = questions[kept], answers[kept]
    return RatedPuzzles(questions, answers, combined(means[kept]), signatures(questions, answers))


def lead(means: np.ndarray) -> np.ndarray:
    """How much harder a puzzle is for a fixed rule than for MIXED: ratios (N,) of mean guesses (N, 3), scaled here."""
    mixed, *fixed = (means * np.array(SCALES)).T
    return np.maximum(*fixed) / np.maximum(mixed, 1e-9)


def apart(boards: np.ndarray) -> np.ndarray:
    """Which boards (N, S) stay, so that of any two each has two clues that the other lacks; (N,) bool, first come."""
    clues = (boards > 0).sum(1)
    kept = np.zeros(len(boards), bool)
    for index, board in enumerate(boards):
        shared = ((boards[kept] == board) & (board > 0)).sum(1)
        kept[index] = (np.minimum(clues[kept], clues[index]) - shared > 1).all()
    return kept


def _is_new(board: np.ndarray, known: set[bytes]) -> bool:
    """Add a board to the known ones; was it new?"""
    before = len(known)
    known.add(board.tobytes())
    return len(known) > before


def _minimal(
    board: np.ndarray, bound: float, wide: bool, known: set[bytes], rng: np.random.Generator
) -> _Member | None:
    """A child without the clues that it does not need; None where its fitness is below `bound` or it is known."""
    child = _Member(board, board)
    if not _count(child, rng, bound * PROMISE if wide else bound):
        return None
    child.answer = the_solution(board)
    minimal = board.copy()
    order = rng.random(len(board)).argsort()
    minimise(minimal, child.answer, order, 0)
    if (minimal != board).any():
        if not _is_new(minimal, known):
            return None
        child = _Member(minimal, child.answer)
        if not _count(child, rng, bound):
            return None
    return child if child.fitness >= bound else None


def _root(size: int, rng: np.random.Generator) -> _Member:
    """The hardest of some random minimal puzzles."""
    roots = []
    for _ in range(ROOTS):
        answer = full_grid(size, rng)
        roots.append(_Member(thin(answer, answer, rng), answer))
        _count(roots[-1], rng)
    return max(roots, key=lambda root: root.fitness)
