"""Hard Sudoku puzzles: a search through the {-1+m} neighbourhood in many independent lineages. (ours)

Random minimal puzzles almost never need 20 guesses. A lineage starts from one of them and keeps a small pool
of its hardest descendants. Fitness is the mean number of guesses in the full search tree. One count is so noisy
that a search which believes it collects lucky counts instead of hard puzzles: members are counted again and
again, and their mean decides. Fitness is capped, so that a lineage drifts among hard puzzles instead of
spending itself on one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from datasets_gen.streams import stream
from datasets_gen.sudoku.construct import full_grid, neighbour, thin
from datasets_gen.sudoku.generate import CHUNK, Puzzles, puzzles_of
from datasets_gen.sudoku.geometry import geometry
from datasets_gen.sudoku.solver import shuffled_orders, solve_many

POOL = 8  # descendants kept
STEPS = 4800  # neighbours tried by a lineage
HARVEST = 30  # steps between two puzzles that a lineage gives away
COUNTS = 16  # counts that a member's fitness is the mean of, at most
CAP = 220.0  # guesses in the tree; about a rating of 110
EXTRA_CLUES = 12  # at most so many clues above a minimal puzzle where no guess is needed


@dataclass(frozen=True)
class Lineage:
    """One task: the lineage that (seed, split, number) names."""

    size: int
    seed: int
    split: int
    number: int


@dataclass
class _Member:
    question: np.ndarray
    answer: np.ndarray
    fitness: float = 0.0
    counts: int = 0


def descend(lineage: Lineage) -> Puzzles:
    """The puzzles that a lineage gives away: one from its pool, drawn at random, every `HARVEST` steps."""
    rng = stream(lineage.seed, lineage.split, lineage.number, 1)
    size = lineage.size
    orders, ranks = shuffled_orders(rng, 64, size)

    def count(member: _Member) -> None:
        at = int(rng.random() * len(orders))
        tree = solve_many(member.question[None], 2, orders[at : at + 1], ranks[at : at + 1], geometry(size))[2][0]
        member.fitness += (min(float(tree), CAP) - member.fitness) / (member.counts + 1)
        member.counts += 1

    answer = full_grid(size, rng)
    pool = [_Member(thin(answer, answer, rng), answer)]
    known = {pool[0].question.tobytes()}
    harvest = []
    for step in range(1, STEPS + 1):
        parent = pool[int(rng.random() * len(pool))]
        if parent.counts < COUNTS:
            count(parent)
        child = _Member(*neighbour(parent.question, rng, orders, ranks))
        if child.question.tobytes() not in known:
            known.add(child.question.tobytes())
            count(child)
            weakest = min(range(len(pool)), key=lambda index: pool[index].fitness)
            if len(pool) < POOL:
                pool.append(child)
            elif child.fitness >= pool[weakest].fitness:
                pool[weakest] = child
        if step % HARVEST == 0:
            harvest.append(pool[int(rng.random() * len(pool))])
    return puzzles_of(
        np.array([member.question for member in harvest]), np.array([member.answer for member in harvest])
    )


def easy_chunk(lineage: Lineage) -> Puzzles:
    """`CHUNK` random puzzles, each a lineage of its own; minimal, but for those that need no guess.

    These get up to `EXTRA_CLUES` more: the easy part of Sudoku-Extreme is what raises its mean number of clues.
    """
    rng = stream(lineage.seed, lineage.split, lineage.number, 0)
    answers = np.array([full_grid(lineage.size, rng) for _ in range(CHUNK)])
    questions = np.array([thin(answer, answer, rng) for answer in answers])
    for index in np.flatnonzero(puzzles_of(questions, answers).ratings == 0):
        blanks = np.flatnonzero(questions[index] == 0)
        order = rng.random(len(blanks)).argsort()
        more = blanks[order[: int(rng.random() * (EXTRA_CLUES + 1))]]
        questions[index, more] = answers[index, more]
    return puzzles_of(questions, answers)
