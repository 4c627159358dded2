"""Random mazes whose shortest path is long, from the distribution of the published Maze-Hard."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np

from datasets_gen.layout import DatasetError, Split
from datasets_gen.maze import Maze
from datasets_gen.maze.paths import FREE, GOAL, search_mazes, solve
from datasets_gen.parallel import ordered_map
from datasets_gen.progress import progress
from datasets_gen.streams import STREAMS, stream

TRIES = 40_000  # random mazes per task
PILOT = 200_000  # random mazes from which the largest weight is estimated
PATIENCE = 400  # tasks in a row that bring nothing before giving up
SLICE = 4_000  # random mazes per call of compiled code, which Ctrl-C waits for
MOST = 4_096  # mazes with far goals that a task may meet before it stops early


@dataclass(frozen=True)
class Kind:
    """Which mazes: the wall density of each is drawn between the two bounds, its path has `min_path` cells."""

    size: int
    lowest: float
    highest: float
    min_path: int
    unique: bool


@dataclass(frozen=True)
class Chunk:
    """One task: `TRIES` random mazes of the stream that (seed, split, number) names, thinned by weight."""

    kind: Kind
    seed: int
    split: int
    number: int
    heaviest: float = 0.0


def maze_splits(kind: Kind, counts: dict[str, int], *, seed: int = 0, processes: int | None = None) -> dict[str, Split]:
    """Splits of `counts` mazes; ratings are path cells with both ends.

    Drawing walls, S and G at random and rejecting short paths would succeed once in 80,000 times (30×30, 110
    cells). Mazes with S alone, kept with a probability in proportion to the number of goals that are far enough, G
    being one of these at random, come faster. Beside rejection a maze then counts with its number of free cells: 10×10
    ones with paths of 4 cells or more have .298 walls in the mean, not .308, 15×15 ones of 34 .336, not .340. (ours)

    Raises:
        DatasetError: mazes that do not exist, or that random search does not meet.
    """
    free = (1 - kind.lowest) * kind.size**2
    if not 2 <= kind.min_path <= free:
        raise DatasetError(
            f"--min-path {kind.min_path}: {kind.size}x{kind.size} mazes with {kind.lowest:.0%} walls have some "
            f"{free:.0f} free cells; choose from 2 to well below that"
        )
    puzzle = Maze(kind.size)
    seen: set[int] = set()
    splits = {}
    heaviest = 0.0
    for name in (name for name in STREAMS if counts.get(name)):
        tasks = (Chunk(kind, seed, STREAMS.index(name), number) for number in itertools.count())
        with progress(counts[name], f"{name}: {kind.size}x{kind.size} maze", "maze") as bar:
            heaviest = heaviest or _heaviest(Chunk(kind, seed, len(STREAMS), 0))
            weighted = (replace(task, heaviest=heaviest) for task in tasks)
            mazes: list[np.ndarray] = []
            barren = 0
            for chunk in ordered_map(maze_chunk, weighted, processes):
                before = len(mazes)
                for maze, signature in zip(chunk, puzzle.signatures(chunk, chunk).tolist(), strict=True):
                    if signature not in seen and len(mazes) < counts[name]:
                        seen.add(signature)
                        mazes.append(maze)
                bar.update(len(mazes) - before)
                barren = 0 if len(mazes) > before else barren + 1
                if len(mazes) == counts[name]:
                    break
                if barren == PATIENCE:
                    raise DatasetError(_barren(kind, len(seen)))
        labels, lengths, _ = solve(np.array(mazes))
        splits[name] = Split.of_puzzles(np.array(mazes), labels, lengths.astype(np.int32))
    return splits


def maze_chunk(chunk: Chunk) -> np.ndarray:
    """The mazes (N, S) of one task: often none."""
    rng = stream(chunk.seed, chunk.split, chunk.number)
    kept = _far(chunk.kind, TRIES, rng)
    weights = kept[:, -1]
    kept = kept[rng.random(len(kept)) * chunk.heaviest < weights]
    return np.array([_with_one_goal(row[:-1], rng) for row in kept], np.uint8).reshape(-1, chunk.kind.size**2)


def _with_one_goal(cells: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    goals = np.flatnonzero(cells == GOAL)
    chosen = goals[int(rng.random() * len(goals))]
    return np.where((cells == GOAL) & (np.arange(len(cells)) != chosen), FREE, cells)


def _far(kind: Kind, tries: int, rng: np.random.Generator) -> np.ndarray:
    kept = np.empty((MOST, kind.size**2 + 1), np.uint16)
    found = 0
    for start in range(0, tries, SLICE):
        some = min(SLICE, tries - start)
        found += search_mazes(rng, some, kind.size, kind.lowest, kind.highest, kind.min_path, kind.unique, kept[found:])
        if found == MOST:
            break
    return kept[:found]


def _heaviest(pilot: Chunk) -> float:
    """A weight that practically no maze exceeds: half as much again as the largest of a trial run."""
    for number in range(PATIENCE // (PILOT // TRIES)):
        kept = _far(pilot.kind, PILOT, stream(pilot.seed, pilot.split, number))
        if len(kept):
            return 1.5 * float(kept[:, -1].max())
    raise DatasetError(_barren(pilot.kind, 0))


def _barren(kind: Kind, found: int) -> str:
    what = f"with {'one' if kind.unique else 'a'} shortest path of {kind.min_path} cells or more"
    return (
        f"{PATIENCE * TRIES:,} random {kind.size}x{kind.size} mazes brought no new one {what} ({found} found "
        f"until then); ask for fewer mazes, a smaller --min-path or another --wall-density"
    )
