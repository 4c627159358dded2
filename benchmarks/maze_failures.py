"""Draw mazes that a network fails, and its answers at some steps, as one SVG; from the boards of an evaluation.

    python -m reason evaluate RUN data=DIR steps=32 evaluation.boards=4
    python benchmarks/maze_failures.py RUN/evaluation/NAME/boards.json OUT.svg --puzzles 4 --steps 1 2 4 8 16 32

Blue: a path cell of the answer that is on a shortest path. Red: one that is on none. A ring: a cell of the label's path
that the answer lacks. Grey: every cell of a shortest path.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from datasets_gen.maze.paths import GOAL, PATH, START, WALL, on_shortest_paths
from reason.files import read_json, written_beside
from reason.report.palette import DARK, LIGHT

SIDE, GAP, TOP = 160, 16, 24  # pixels of a maze, between two, above the first row
FILLS = {"wall": "--soft", "shortest": "--line", "end": "--series-2", "good": "--series-1", "bad": "--wrong"}


def cells(kind: str, where: np.ndarray) -> str:
    """Cells of a maze, (rows, rows) bool, as one path whose unit is a cell: squares, or dots for an answer's cells."""
    shape = "h1v1h-1z" if kind in ("wall", "shortest", "end") else "m.2.5a.3.3 0 1 0 .6 0a.3.3 0 1 0-.6 0"
    return f'<path class="{kind}" d="{"".join(f"M{column} {row}{shape}" for row, column in np.argwhere(where))}"/>'


def picture(boards: list[dict[str, Any]], steps: list[int]) -> str:
    """A row for each failed maze, a column for each supervision step."""
    width, height = len(steps) * (SIDE + GAP) - GAP, TOP + len(boards) * (SIDE + GAP) - GAP
    says = f"Answers to {len(boards)} failed mazes at steps {', '.join(map(str, steps))}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{says}">',
        f"<style>{style(LIGHT)}@media(prefers-color-scheme:dark){{{style(DARK)}}}</style>",
    ]
    for column, step in enumerate(steps):
        middle = column * (SIDE + GAP) + SIDE / 2
        parts.append(f'<text x="{middle}" y="{TOP - 8}" text-anchor="middle">step {step}</text>')
    for row, board in enumerate(boards):
        rows = round(len(board["question"]) ** 0.5)
        question, label = (np.array(board[name], np.uint8).reshape(rows, rows) for name in ("question", "label"))
        shortest = on_shortest_paths(question.reshape(1, -1)).reshape(rows, rows)
        fixed = {"shortest": shortest, "wall": question == WALL, "end": (question == START) | (question == GOAL)}
        parts.append(f'<defs><g id="maze{row}">{"".join(map(cells, fixed, fixed.values()))}</g></defs>')
        for column, step in enumerate(steps):
            at = f"translate({column * (SIDE + GAP)} {TOP + row * (SIDE + GAP)}) scale({SIDE / rows:g})"
            path = np.array(board["answers"][step - 1]).reshape(rows, rows) == PATH
            dots = {"good": path & shortest, "bad": path & ~shortest, "ring": (label == PATH) & ~path}
            parts.append(f'<g transform="{at}"><use href="#maze{row}"/>{"".join(map(cells, dots, dots.values()))}</g>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def style(colours: dict[str, str]) -> str:
    """The colours of the report."""
    fills = "".join(f".{kind}{{fill:{colours[name]}}}" for kind, name in FILLS.items())
    ring = f".ring{{fill:none;stroke:{colours['--wrong']};stroke-width:.15}}"
    return f"{fills}{ring}text{{fill:{colours['--ink']};font:14px Helvetica,Arial,sans-serif}}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("boards", type=Path, help="boards.json of an evaluation of mazes")
    parser.add_argument("output", type=Path, help="the SVG")
    parser.add_argument("--puzzles", type=int, default=4, help="failed mazes to draw")
    parser.add_argument("--steps", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32], help="supervision steps to draw")
    options = parser.parse_args()
    failed = [board for board in read_json(options.boards)["puzzles"] if not board["solved"]][: options.puzzles]
    if not failed:
        parser.error(f"{options.boards} holds no failed maze; evaluate more of them, or with evaluation.boards above 0")
    if max(options.steps) > len(failed[0]["answers"]):
        parser.error(f"step {max(options.steps)} of {len(failed[0]['answers'])}; evaluate with more steps")
    with written_beside(options.output) as part:
        part.write_text(picture(failed, options.steps), encoding="utf-8")


if __name__ == "__main__":
    main()
