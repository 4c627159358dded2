"""The mix `extreme`: random Sudokus, those of few clues, and those of depth 2 that hold an exocet. (ours)

Random puzzles have depth 0 or 1, and so have nearly all of their neighbours. `endurance`, the wrong candidates that a
pass of trial and error leaves, rises long before trial and error fails. So a lineage climbs on it (multilevel
splitting): the members of a generation above the median are parents, and their neighbours that keep this level are the
next generation. Parents stay only if there are fewer than `GENERATION` children. So a puzzle lasts through neighbours
that keep the level too, and isolated peaks disappear.
All hold an exocet, as more than half of the hardest published puzzles do: without that most lineages lose their members
before `DEEP`, and networks trained on the others solve few of the published ones. From `DEEP` on the level stays.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from datasets_gen.extensions.extreme.depth import depths
from datasets_gen.extensions.extreme.exocet import exocet_puzzle
from datasets_gen.extensions.extreme.neighbours import enduring_neighbour, few_clues, solution_classes
from datasets_gen.extensions.extreme.solver import endurance
from datasets_gen.layout import Split
from datasets_gen.parallel import ORDER, Chunk, distinct, seeded
from datasets_gen.sudoku import Sudoku
from datasets_gen.sudoku.generate import Puzzle
from datasets_gen.sudoku.signature import signatures
from datasets_gen.sudoku.solver import full_grid, thin
from datasets_gen.sudoku.tables import geometry

SHARES = {"random": 0.16, "few clues": 0.11, "deep": 0.73}
EXTRA_CLUES = 12  # the most clues above a minimal puzzle, if singles solve it
PER_WALK = 8  # puzzles of few clues
LINEAGES = 10  # each gives at most its share of a split's deep puzzles if there were so many,
MOST = 500  # and at most so many
FEWEST = 40  # deep puzzles that may share their lineage, in small splits

FOUNDERS = 1_000  # puzzles with exocets; one in fifteen endures at all
GENERATION = 300  # puzzles
TRIED = 12_000  # neighbours for a generation, at most
DEEP = 140.0  # endurance; published puzzles of depth 2 have 160 to 184
PER_SOLUTION = 2  # puzzles of a generation that climbs
PER_CLASS = 4  # deep puzzles of a lineage with solutions of one class
SCARCE = 10  # a lineage ends with a generation of fewer children


def deepen(wanted: int, rng: np.random.Generator) -> np.ndarray:
    """Return up to `wanted` puzzles (N, 2, 81) of depth 2 of one lineage, or none if none gets deep."""
    members, level = [exocet_puzzle(rng) for _ in range(FOUNDERS)], 0.0
    found: list[Puzzle] = []
    while members and len(found) < wanted:
        values = np.array([endurance(*member) for member in members])
        if level < DEEP:
            level = min(max(float(np.median(values)), level + 1), DEEP)
            met = Counter[bytes | int]()  # questions, and solutions or their classes
        parents = [members[i] for i in np.flatnonzero(values >= level)]
        most = GENERATION if level < DEEP else min(GENERATION, wanted - len(found))
        children = _children(parents, level, most, met, rng)
        found += children if level == DEEP else []
        members = (children + parents)[:GENERATION] if len(children) >= SCARCE else []
    puzzles = np.array(found, np.uint8).reshape(-1, 2, 81)
    return puzzles[depths(puzzles[:, 0], puzzles[:, 1]).depth == 2]


def _children(
    parents: list[Puzzle], level: float, most: int, met: Counter[bytes | int], rng: np.random.Generator
) -> list[Puzzle]:
    """Return up to `most` new neighbours that hold an exocet and have at least this endurance."""
    children: list[Puzzle] = []
    questions, tries = np.array([parent[0] for parent in parents]), TRIED
    while parents and len(children) < most:
        drawn, *child = enduring_neighbour(questions, level, tries, rng, geometry(9))
        tries -= drawn
        if tries < 0:
            break
        question, answer = child[0].tobytes(), child[1].tobytes()
        alike = int(solution_classes(child[1][None])[0]) if level == DEEP else answer
        if not met[question] and met[alike] < (PER_CLASS if level == DEEP else PER_SOLUTION):
            met.update((question, alike))
            children.append((child[0], child[1]))
    return children


def moved(puzzles: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Apply a random symmetry to each puzzle (N, 2, 81) of digits, so that the exocet is in no fixed cells."""
    symmetry = replace(Sudoku(9).symmetry, relabel=(1, 9))
    boards = puzzles.reshape(-1, 2, 9, 9).copy()
    for n, board in enumerate(boards):
        boards[n] = symmetry.moved(board, rng)
    return boards.reshape(-1, 2, 81)


def random_puzzles(count: int, rng: np.random.Generator) -> np.ndarray:
    """Return random minimal puzzles (count, 2, 81); those that singles solve get up to `EXTRA_CLUES` more clues.

    The easy part of Sudoku-Extreme is what raises its mean number of clues.
    """
    answers = np.array([full_grid(9, rng) for _ in range(count)]).reshape(-1, 81)
    puzzles = np.stack([np.array([thin(answer, rng) for answer in answers], np.uint8).reshape(-1, 81), answers], 1)
    for question, answer in (puzzles[n] for n in np.flatnonzero(depths(puzzles[:, 0], answers).depth == 0)):
        blanks = np.flatnonzero(question == 0)
        more = blanks[rng.random(len(blanks)).argsort()[: int(rng.random() * (EXTRA_CLUES + 1))]]
        question[more] = answer[more]
    return puzzles


def mixed_chunk(lineage: Chunk) -> list[tuple[int, Puzzle]]:
    """Return the deep puzzles of a lineage and easy ones in proportion, with signatures.

    Each beginning of the list has about the same proportions. The kind of the lineage holds the number of deep puzzles
    that each split takes from it.
    """
    rng = lineage.rng
    deep = moved(deepen(lineage.kind[ORDER[lineage.split]], rng), rng)
    random, few = (round(len(deep) * SHARES[kind] / SHARES["deep"]) for kind in ("random", "few clues"))
    walked: list[Puzzle] = []
    while len(walked) < few:
        walked += few_clues(PER_WALK, rng)
    kinds = deep, random_puzzles(random, rng), np.array(walked[:few], np.uint8).reshape(-1, 2, 81)
    order = np.concatenate([(np.arange(len(kind)) + 0.5) / len(kind) for kind in kinds if len(kind)]).argsort()
    puzzles = np.concatenate(kinds)[order]
    return list(zip(signatures(*puzzles.swapaxes(0, 1)).tolist(), map(tuple, puzzles), strict=True))


def mixed_splits(counts: dict[str, int], *, seed: int = 0, processes: int | None = None) -> dict[str, Split]:
    """Return splits of `counts` 9×9 puzzles. A lineage belongs to one split; bytes depend only on counts and seed."""
    deepest = {name: min(max(count // LINEAGES, FEWEST), MOST) for name, count in counts.items()}
    found = distinct(mixed_chunk, deepest, counts, seed, processes, "9x9 Sudoku", lambda *_: False, alone=False)
    splits = {}
    for name, puzzles in found.items():
        order = seeded(seed, ORDER.index(name)).random(len(puzzles)).argsort()
        splits[name] = Split.of_puzzles(*(np.array(puzzles)[order].swapaxes(0, 1) + 1))
    return splits
