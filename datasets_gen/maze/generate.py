"""`python -m datasets_gen maze`: generates mazes with a long shortest path, distributed as the published Maze-Hard."""

from __future__ import annotations

import argparse
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np

from datasets_gen.arguments import add_command, add_output, check_counts, save
from datasets_gen.layout import DatasetError, Split
from datasets_gen.maze import Maze
from datasets_gen.maze.paths import FREE, GOAL, search_mazes, solve
from datasets_gen.parallel import ORDER, Chunk, distinct, seeded

DRAWS = 40_000  # random mazes per task
PILOT = 200_000  # random mazes from which the largest weight is estimated
PATIENCE = 400  # stop after so many tasks in a row without a new maze
MOST_FAR = 4_096  # mazes with far goals that a task may meet before it stops early
MOST_SIZE = 256  # rows: MOST_FAR mazes are 1 GiB
DENSITY = (0.2, 0.5)  # uniform between the two: fits Maze-Hard, whose sparsest maze has 28 % walls
PATH_SHARE = 110 / 900  # the published 110 cells of 30×30, kept in proportion at other sizes

PAGE = """Generate mazes with a long shortest path.

Square mazes without a border. Every cell is a wall or free at random, S and G lie on free cells, and the shortest path
between them is long. The label is the shortest path that a breadth-first search finds first when it tries down, left,
right, up, as in Maze-Hard.

  python -m datasets_gen maze --output-dir data/maze                       as Maze-Hard: 30x30, 110 cells or more
  python -m datasets_gen maze --size 10 --min-path 18 --train 2000 --output-dir data/maze10
  python -m datasets_gen maze --size 12 --unique --wall-density 0.4 --output-dir data/maze12
"""


def add_parser(commands: argparse._SubParsersAction) -> None:
    """Add the `maze` command."""
    parser = add_command(commands, "maze", run, PAGE)
    add_output(parser, train=1000, test=1000)
    add = parser.add_argument
    add("--size", type=int, default=30, help="rows and columns (default 30)")
    help = "share of walls; with two numbers, each maze draws a share between them (default 0.2 0.5)"
    add("--wall-density", type=float, nargs="+", default=DENSITY, metavar="P", help=help)
    help = "minimum cells of the shortest path, with both ends (default: 110 at size 30, in proportion to the cells)"
    add("--min-path", type=int, metavar="N", help=help)
    add("--unique", action="store_true", help="only mazes with a single shortest path")


def run(options: argparse.Namespace) -> None:
    """Generate and save the set."""
    counts = check_counts(options)
    if options.size > MOST_SIZE:
        raise DatasetError(f"--size {options.size}: at most {MOST_SIZE} rows and columns")
    puzzle = Maze(options.size)
    density = tuple(options.wall_density)
    if len(density) > 2 or not 0 <= density[0] <= density[-1] < 1:
        raise DatasetError(
            f"--wall-density {' '.join(map(str, density))}: type one share from 0 to below 1, or two that increase"
        )
    min_path = max(3, round(PATH_SHARE * puzzle.seq_len)) if options.min_path is None else options.min_path
    kind = Kind(options.size, density[0], density[-1], min_path, options.unique)
    splits = maze_splits(kind, counts, seed=options.seed, processes=options.processes)
    made_by: dict[str, Any] = {"size": options.size, "wall_density": " ".join(map(str, density)), "min_path": min_path}
    if options.unique:
        made_by["unique"] = True
    lengths = {name: split.ratings for name, split in splits.items() if split.ratings is not None}
    facts = {
        "rating": "cells of the shortest path, both ends counted",
        "mean_rating": {name: round(float(values.mean()), 2) for name, values in lengths.items()},
    }
    save(options, puzzle, splits, made_by, facts)


@dataclass(frozen=True)
class Kind:
    """A kind of mazes: the wall density is drawn between two bounds, the path has `min_path` cells or more."""

    size: int
    lowest: float
    highest: float
    min_path: int
    unique: bool


def maze_splits(kind: Kind, counts: dict[str, int], *, seed: int = 0, processes: int | None = None) -> dict[str, Split]:
    """Return splits of `counts` mazes; a rating is the number of path cells with both ends.

    Plain rejection draws walls, S and G at random and drops short paths. It succeeds once in 80,000 times (30×30, 110
    cells). The sampler here draws walls and S, and keeps the maze with a probability in proportion to its weight, the
    number of goals that are far enough; one of these at random becomes G. The weight makes every far pair (maze, G) as
    likely as any other, as rejection does. One difference remains: rejection draws G among the free cells, so it
    prefers mazes with few of them, and has .308 of walls in 10×10 mazes with paths of 4 cells, not .298. (ours)
    """
    free = (1 - kind.lowest) * kind.size**2
    if not 2 <= kind.min_path <= free:
        raise DatasetError(f"--min-path {kind.min_path}: choose from 2 to well below {free:.0f}, the free cells")

    def hopeless(_: Any, misses: int, mazes: int) -> bool:
        if misses == PATIENCE:
            raise _no_more_mazes(kind, mazes)
        return False

    what = f"{kind.size}x{kind.size} maze"
    drawn = distinct(maze_chunk, (kind, _heaviest(kind, seed)), counts, seed, processes, what, hopeless)
    splits = {}
    for name, mazes in ((name, np.array(some)) for name, some in drawn.items()):
        labels, lengths, _ = solve(mazes)
        splits[name] = Split.of_puzzles(mazes, labels, lengths.astype(np.int32))
    return splits


def maze_chunk(chunk: Chunk) -> list[tuple[int, np.ndarray]]:
    """Draw `DRAWS` random mazes (S,) and return those that are kept, with their signatures; often none.

    chunk.kind: the mazes' `Kind`, and the weight above which mazes are always kept.
    """
    (kind, heaviest), rng = chunk.kind, chunk.rng
    kept = _far(kind, DRAWS, rng)
    weights = kept[:, -1]
    mazes = kept[rng.random(len(kept)) * heaviest < weights, :-1].astype(np.uint8)
    for maze in mazes:  # one of its far goals is left
        goals = np.flatnonzero(maze == GOAL)
        chosen = goals[int(rng.random() * len(goals))]
        maze[goals] = FREE
        maze[chosen] = GOAL
    return list(zip(Maze(kind.size).signatures(mazes, mazes).tolist(), mazes, strict=True))


def _far(kind: Kind, draws: int, rng: np.random.Generator) -> np.ndarray:
    """Draw random mazes, and return those (N, S + 1) that have far goals, each with the number of these goals."""
    kept = np.empty((MOST_FAR, kind.size**2 + 1), np.uint32)
    return kept[: search_mazes(rng, draws, *astuple(kind), kept)]


def _heaviest(kind: Kind, seed: int) -> float:
    """Return a weight that practically no maze exceeds: 1.5 times the largest of a trial run."""
    for number in range(PATIENCE // (PILOT // DRAWS)):
        kept = _far(kind, PILOT, seeded(seed, len(ORDER), number))
        if len(kept):
            return 1.5 * float(kept[:, -1].max())
    raise _no_more_mazes(kind, 0)


def _no_more_mazes(kind: Kind, mazes: int) -> DatasetError:
    return DatasetError(
        f"of {PATIENCE * DRAWS:,} random mazes, none was new with {kind.min_path} path cells or more, after {mazes} "
        "different ones; request fewer mazes, a smaller --min-path or another --wall-density"
    )
