"""Sets of real Sudokus from files in Sudoku-Extreme's columns: source, question, answer, rating.

    python -m benchmarks.real_sudoku train FILE.csv --output-dir data/sudoku-real
    python -m benchmarks.real_sudoku train FILE.csv --first 1000 --output-dir data/sudoku-real-1k
    python -m benchmarks.real_sudoku train FILE.csv --first 1000 --test DEV.csv --output-dir data/sudoku-real-1k
    python -m benchmarks.real_sudoku dev FILE.csv --output-dir data/sudoku-dev      a folder for each source
    python -m benchmarks.real_sudoku train FILE.csv --first 1000 --test DEV.csv --trial --output-dir data/sudoku-trial
    python -m benchmarks.real_sudoku dev DEV.csv --trial --output-dir data/sudoku-judge
    python -m benchmarks.real_sudoku dev FILE.csv --apart data/sudoku-real-1k* --output-dir data/sudoku-rest

`train` cuts 512 validation puzzles off. No validation puzzle's solution is the solution of a training puzzle under a
symmetry, as far as the cycles of its pairs of lines tell; none is among the first 1,000 rows, from which the
networks are trained. `--test` adds a test split in Sudoku-Extreme's proportion, 270 puzzles with 17 clues to 730 of
the forums' hardest, the first of each in DEV.csv, which holds puzzles of public collections (docs/log/sets.md). With
`--trial` it is the first 500 of the forums' hardest, which choose among recipes (docs/log/structure.md), and
`dev --trial` leaves these out: the 3,000 others judge. `--apart` leaves out puzzles with a solution of these sets: what
a network that saw 1,000 puzzles of FILE.csv and neighbours of them has not seen.
"""

from __future__ import annotations

import argparse
import csv
import random
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np

from datasets_gen.extensions.extreme.neighbours import solution_classes
from datasets_gen.layout import read_split, splits_of

FIELD = 1000  # the first rows, the number that the papers train on
VALIDATION = 512
TEST = {"puzzles2_17_clue": 270, "puzzles5_forum_hardest_1905_11+": 730}
TRIAL = {"puzzles5_forum_hardest_1905_11+": 500}
COMMON = 8  # a class of more puzzles than this is no class of its own: its grids are highly symmetric


def validation_classes(classes: list[int]) -> set[int]:
    """Solution classes of at least VALIDATION puzzles together, none of the first FIELD rows', drawn with seed 0."""
    count, field = Counter(classes), set(classes[:FIELD])
    order = [each for each in dict.fromkeys(classes[FIELD:]) if each not in field and count[each] <= COMMON]
    random.Random(0).shuffle(order)
    chosen: set[int] = set()
    for each in order:
        if sum(count[c] for c in chosen) >= VALIDATION:
            break
        chosen.add(each)
    return chosen


def boards(directory: Path, split: str) -> tuple[np.ndarray, np.ndarray]:
    """Questions and answers (N, S) of a split."""
    _, read = read_split(directory, split)
    return (read.inputs - 1).astype(np.uint8), (read.labels - 1).astype(np.uint8)


def classes_of(folders: list[Path], without: tuple[Path, str] | None = None) -> np.ndarray:
    """Solution classes of the sets' puzzles: all splits, without one of one set."""
    splits = [(folder, split) for folder in folders for split in splits_of(folder) if (folder, split) != without]
    return np.concatenate([np.empty(0, np.uint64), *(solution_classes(boards(*each)[1]) for each in splits)])


def read(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as stream:
        return list(csv.DictReader(stream))


def write(file: Path, rows: list[dict[str, str]]) -> Path:
    with file.open("w", newline="") as out:
        writer = csv.DictWriter(out, ["source", "question", "answer", "rating"])
        writer.writeheader()
        writer.writerows(rows)
    return file


def imported(files: list[Path], directory: Path) -> None:
    command = [sys.executable, "-m", "datasets_gen", "import", "sudoku-csv", *map(str, files)]
    subprocess.run([*command, "--output-dir", str(directory)], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["train", "dev"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--first", type=int, help="of the training rows these alone")
    parser.add_argument("--test", type=Path, metavar="DEV.csv", help="make a test split of it")
    parser.add_argument("--trial", action="store_true", help="the puzzles for trials of recipes: take, or leave out")
    parser.add_argument(
        "--apart", type=Path, nargs="*", default=[], metavar="DIR", help="of dev: whose solutions to leave out"
    )
    parser.add_argument("--output-dir", type=Path, required=True)
    options = parser.parse_args()
    rows = read(options.file)
    answers = np.array([list(map(int, row["answer"])) for row in rows], np.uint8)
    classes = solution_classes(answers).tolist()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.what == "dev":
            by_source = defaultdict(list)
            barred = set(classes_of(options.apart).tolist())
            for row, each in zip(rows, classes, strict=True):
                if each not in barred:
                    by_source[row["source"]].append(row)
            for source, those in by_source.items():
                those = those[TRIAL.get(source, 0) if options.trial else 0 :]
                imported([write(folder / "test.csv", those)], options.output_dir / source.replace("+", ""))
            return
        apart = validation_classes(classes)
        kept = [row for row, each in zip(rows, classes, strict=True) if each not in apart]
        held = [row for row, each in zip(rows, classes, strict=True) if each in apart]
        files = [write(folder / "train.csv", kept[: options.first]), write(folder / "validation.csv", held)]
        if options.test:
            counts = TRIAL if options.trial else TEST
            by_source = {source: [row for row in read(options.test) if row["source"] == source] for source in counts}
            chosen = [row for source, count in counts.items() for row in by_source[source][:count]]
            random.Random(0).shuffle(chosen)  # so that the first N have the proportion, too
            files.append(write(folder / "test.csv", chosen))
        imported(files, options.output_dir)


if __name__ == "__main__":
    main()
