"""The Sudoku solver on a published CSV: answers and speed.

    python benchmarks/sudoku_solver.py FILE.csv

FILE has the columns source, question, answer, rating of Sudoku-Extreme. Times are processor time of one core, the
compiled code warm: finding the solution (limit 1), and finding it and proving that there is no other (limit 2).
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from datasets_gen.importers.tables import read_table
from datasets_gen.sudoku.solver import solve


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    read = read_table(parser.parse_args().file, "sudoku")
    split, sources = read.split, np.asarray(read.split.sources)
    questions, answers = split.inputs - 1, split.labels - 1
    solve(questions[:10])  # compiles
    view = Table(title="the solver", title_justify="left")
    for column in ("source", "puzzles", "answers equal", "one solution", "µs to find", "µs to find and prove"):
        view.add_column(column, justify="left" if column == "source" else "right")
    for index, name in enumerate(read.sources):
        rows = sources == index
        seconds = []
        for limit in (1, 2):
            started = time.process_time()
            solved = solve(questions[rows], limit=limit)
            seconds.append(time.process_time() - started)
        equal, unique = (solved.solutions == answers[rows]).all(1).sum(), (solved.counts == 1).sum()
        times = [f"{1e6 * each / rows.sum():.0f}" for each in seconds]
        view.add_row(name, str(rows.sum()), str(equal), str(unique), *times)
    Console().print(view)


if __name__ == "__main__":
    main()
