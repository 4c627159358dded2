"""Sudokus of depth 2 by simulated annealing, each lineage from a random puzzle of its own. (ours)

Random minimal puzzles have depth 0 or 1, and so have nearly all of their neighbours. `endurance`, the wrong candidates
that a pass of depth 1 leaves, rises long before depth 1 fails. Annealing that maximizes it ends at depth 2 in one of
four lineages or so. A walk at a constant temperature then meets more puzzles of depth 2.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

import numpy as np

from datasets_gen.parallel import seeded
from datasets_gen.sudoku.branching import thin
from datasets_gen.sudoku.depth import depths
from datasets_gen.sudoku.extreme import Lineage, RatedPuzzles
from datasets_gen.sudoku.neighbours import neighbour
from datasets_gen.sudoku.rating import rate
from datasets_gen.sudoku.signature import signatures, solution_classes
from datasets_gen.sudoku.solver import endurance, full_grid

Puzzle = tuple[np.ndarray, np.ndarray]  # question (S,) of digits, 0 blank, and answer (S,)

ANNEALING = 10_000  # neighbours
HOT, COLD = 1.0, 0.3  # temperatures of the annealing, in candidates
WALK = 300  # neighbours of the walk for each puzzle that the split takes
WARM = 10.0  # its temperature: puzzles are left, and those of depth 2 are not
DEEP = 100.0  # endurance from which depth 1 is not enough, nearly always
PER_CLASS = 4  # puzzles of a lineage with solutions of one class


def deepen(lineage: Lineage) -> RatedPuzzles:
    """The puzzles of depth 2 that a lineage meets; none where the annealing ends below."""
    rng = seeded(lineage.seed, lineage.split, lineage.number, 2)
    answer = full_grid(lineage.size, rng)
    end, _ = _walk((thin(answer, answer, rng), answer), np.geomspace(HOT, COLD, ANNEALING), rng)
    walk = np.full(WALK * lineage.limit if endurance(*end) >= DEEP else 0, WARM)
    met = {question.tobytes(): (question, answer) for question, answer in _walk(end, walk, rng)[1]}
    questions, answers = np.array(list(met.values()), np.uint8).reshape(-1, 2, lineage.size**2).swapaxes(0, 1)
    kept = depths(questions, answers).depth == 2
    kept[kept] = [rank < PER_CLASS for rank in _ranks(solution_classes(answers[kept]).tolist())]
    questions, answers = questions[kept], answers[kept]
    return RatedPuzzles(questions, answers, rate(questions), signatures(questions, answers))


def _walk(puzzle: Puzzle, temperatures: np.ndarray, rng: np.random.Generator) -> tuple[Puzzle, list[Puzzle]]:
    """Metropolis' rule on `endurance`, a neighbour for each temperature: the last puzzle, and all of depth 2 met."""
    now, met = endurance(*puzzle), []
    for temperature in temperatures.tolist():
        child = neighbour(puzzle[0], rng)
        if child is None or (child[0] == puzzle[0]).all():
            continue
        least = now + temperature * math.log(1 - rng.random())
        reached = endurance(*child, min(least, DEEP))
        if reached >= DEEP:
            met.append(child)
        if reached >= least:
            puzzle, now = child, reached
    return puzzle, met


def _ranks(classes: Iterable[int]) -> Iterable[int]:
    """How many of its class came before each."""
    before: Counter[int] = Counter()
    for each in classes:
        yield before[each]
        before[each] += 1
