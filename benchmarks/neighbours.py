"""A training set of neighbours of a set's deep Sudokus: up to four of depth 2 and one of depth 1 for each of them.

    python -m benchmarks.neighbours data/sudoku-real --output-dir data/sudoku-real-near
    python -m benchmarks.neighbours data/sudoku-real-1k --each 60 --output-dir data/sudoku-real-1k-near

A neighbour has others in place of one clue (datasets_gen/extensions/extreme/neighbours.py). No neighbour's solution
is, under a symmetry, the solution of a validation or test puzzle of the set, or of any puzzle of the sets named by
--apart, as far as the cycles of its pairs of lines tell.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.real_sudoku import boards, classes_of, imported, write
from datasets_gen.extensions.extreme.depth import depths
from datasets_gen.extensions.extreme.neighbours import neighbour, solution_classes
from datasets_gen.parallel import ordered_map, seeded
from datasets_gen.progress import Progress

CHUNK = 32  # parents per task
AT_ONCE = 5  # neighbours whose depth is measured together
TRIES = 10  # neighbours drawn for each one of depth 2 that is wanted


class Task(NamedTuple):
    number: int
    parents: np.ndarray  # (P, S) digits, 0 open


def digits(board: np.ndarray) -> str:
    return "".join(map(str, board))


def near(task: Task, each: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Neighbours of the parents: of each parent up to `each` of depth 2, and a fourth as many of depth 1."""
    rng = seeded(0, task.number)
    found = []
    for parent in task.parents:
        known, wanted = {parent.tobytes()}, {2: each, 1: (each + 3) // 4}
        for _ in range(TRIES * each // AT_ONCE):
            drawn = [child for _ in range(AT_ONCE) if (child := neighbour(parent, rng)) is not None]
            if not drawn:
                continue
            questions, answers = map(np.array, zip(*drawn, strict=True))
            for question, answer, depth in zip(questions, answers, depths(questions, answers).depth, strict=True):
                if wanted.get(depth) and question.tobytes() not in known:
                    known.add(question.tobytes())
                    wanted[depth] -= 1
                    found.append((question, answer))
            if not wanted[2]:
                break
    return found


def tasks(parents: np.ndarray) -> Iterator[Task]:
    for number, start in enumerate(range(0, len(parents), CHUNK)):
        yield Task(number, parents[start : start + CHUNK])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", type=Path)
    parser.add_argument("--each", type=int, default=4, help="neighbours of depth 2 for each puzzle, at most")
    parser.add_argument("--apart", type=Path, nargs="*", default=[], metavar="DIR")
    parser.add_argument("--processes", type=int)
    parser.add_argument("--output-dir", type=Path, required=True)
    options = parser.parse_args()
    questions, answers = boards(options.set, "train")
    parents = questions[depths(questions, answers).depth == 2]
    barred = classes_of([options.set, *options.apart], without=(options.set, "train"))
    found: dict[bytes, tuple[np.ndarray, np.ndarray]] = {}
    with Progress(total=len(parents), desc=f"{options.set}: neighbours", unit="puzzle") as bar:
        for chunk in ordered_map(partial(near, each=options.each), tasks(parents), options.processes):
            found.update((question.tobytes(), (question, answer)) for question, answer in chunk)
            bar.update(min(CHUNK, len(parents) - bar.n))
    free = ~np.isin(solution_classes(np.array([answer for _, answer in found.values()])), barred)
    kept = [pair for pair, each in zip(found.values(), free, strict=True) if each]
    print(f"{len(parents):,} puzzles of depth 2: {len(found):,} neighbours, {len(found) - len(kept)} of barred classes")
    rows = [
        {"source": options.set.name, "question": digits(question), "answer": digits(answer), "rating": "0"}
        for question, answer in kept
    ]
    with tempfile.TemporaryDirectory() as name:
        imported([write(Path(name) / "train.csv", rows)], options.output_dir)


if __name__ == "__main__":
    main()
