"""Sudokus of depth 2 that hold an exocet: each lineage starts from random puzzles of its own. (ours)

Random puzzles have depth 0 or 1, and so have nearly all of their neighbours. `endurance`, the wrong candidates that a
pass of trial and error leaves, rises long before trial and error fails. So generations climb on it (multilevel
splitting): the members above the median are parents, and their neighbours that keep this level are the next generation.
Older members leave it, so that puzzles count whose neighbours keep the level too; other peaks die out. All hold an
exocet, as more than half of the hardest published puzzles do: without that most lineages lose their members before
`DEEP`, and networks trained on the others solve few of the published ones. From `DEEP` on the level stays, and parents
that need many guesses are preferred.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from datasets_gen.extensions.extreme.branching import endurance
from datasets_gen.extensions.extreme.depth import depths
from datasets_gen.extensions.extreme.exocet import exocet_puzzle, holds_exocet
from datasets_gen.extensions.extreme.guesses import guesses
from datasets_gen.extensions.extreme.neighbours import Puzzle, neighbour, solution_classes
from datasets_gen.parallel import Chunk, seeded

GENERATION = 300  # puzzles
TRIED = 8_000  # neighbours for a generation, at most
DEEP = 140.0  # endurance; published puzzles of depth 2 have 160 to 184
PER_CLASS = 2, 4  # puzzles with solutions of one class: of a generation that climbs, of all deep ones of a lineage
DRAWN = 1, 3  # members drawn for a parent, likewise; of deep ones the one that needs most guesses is the parent
SCARCE = 10  # a lineage ends with a deep generation of fewer children


class _Met:
    """Puzzles that were taken, and how many of each solution class."""

    def __init__(self) -> None:
        self.puzzles: set[bytes] = set()
        self.classes: Counter[int] = Counter()

    def is_new(self, puzzle: Puzzle, per_class: int) -> bool:
        """Take a puzzle, unless it is known, or `per_class` of its class are."""
        question, (its_class,) = puzzle[0].tobytes(), solution_classes(puzzle[1][None]).tolist()
        if question in self.puzzles or self.classes[its_class] == per_class:
            return False
        self.puzzles.add(question)
        self.classes[its_class] += 1
        return True


def deepen(lineage: Chunk) -> tuple[np.ndarray, np.ndarray]:
    """Questions and answers (N, 81) of depth 2 that a lineage finds; none where none gets deep.

    The kind of the lineage is how many puzzles the split takes of it.
    """
    rng = seeded(lineage.seed, lineage.split, lineage.number, 2)
    members = _climb(rng)
    met = _Met()
    found = [member for member in members if met.is_new(member, PER_CLASS[1])]
    while members and len(found) < lineage.kind:
        order = guesses(np.array([question for question, _ in members])).argsort(kind="stable")
        children = _children([members[i] for i in order], DEEP, met, DRAWN[1], PER_CLASS[1], rng)
        found += children
        members = _next(members, children) if len(children) >= SCARCE else []
    questions, answers = np.array(found, np.uint8).reshape(-1, 2, 81).swapaxes(0, 1)
    kept = depths(questions, answers).depth == 2
    return questions[kept], answers[kept]


def _climb(rng: np.random.Generator) -> list[Puzzle]:
    """The first generation whose endurance is `DEEP`; empty where a generation has no member above the level before."""
    members, level = [exocet_puzzle(rng) for _ in range(GENERATION)], 0.0
    while members and level < DEEP:
        values = np.array([endurance(*member, 0.0) for member in members])
        level = min(max(float(np.median(values)), level + 1), DEEP)
        parents = [members[i] for i in np.flatnonzero(values >= level)]
        members = _next(parents, _children(parents, level, _Met(), DRAWN[0], PER_CLASS[0], rng)) if parents else []
    return members


def _next(parents: list[Puzzle], children: list[Puzzle]) -> list[Puzzle]:
    """A generation: children, and parents where they are too few."""
    return (children + parents)[:GENERATION]


def _children(
    parents: list[Puzzle], level: float, met: _Met, drawn: int, per_class: int, rng: np.random.Generator
) -> list[Puzzle]:
    """New neighbours that hold an exocet and endure as much; the parent of each is the last of `drawn`, as ordered."""
    found: list[Puzzle] = []
    for _ in range(TRIED):
        child = neighbour(parents[int(rng.random(drawn).max() * len(parents))][0], rng)
        if child is None or not holds_exocet(child[0]) or endurance(*child, level) < level:
            continue
        if met.is_new(child, per_class):
            found.append(child)
            if len(found) == GENERATION:
                break
    return found
