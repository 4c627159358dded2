"""What several presets share: data sets, and the shapes of their puzzles."""

from __future__ import annotations

from collections.abc import Callable

from datasets_gen.maze import Maze
from datasets_gen.sudoku import Sudoku
from reason.config.overrides import Changes
from reason.data import shape_of_puzzle
from reason.data.config import GenerateConfig
from reason.models.base import Shape

SUDOKU_4, SUDOKU_6, SUDOKU_9 = (shape_of_puzzle(Sudoku(size)) for size in (4, 6, 9))
MAZE_10, MAZE_15, MAZE_30 = (shape_of_puzzle(Maze(size)) for size in (10, 15, 30))

SUDOKU_6X6 = GenerateConfig(name="sudoku", size=6, train=2500, validation=500, test=1000)
SUDOKU_EXTREME: Changes = {
    "data.directory": "data/sudoku-extreme-generated",
    "data.generate": GenerateConfig(name="sudoku", size=9, mix="extreme", train=1000, validation=1000, test=5000),
}
MAZE_HARD: Changes = {
    "data.directory": "data/maze-30x30",
    "data.generate": GenerateConfig(name="maze", size=30, min_path=110, train=1000, test=1000),
}

SETS: dict[str, tuple[Changes, Shape | Callable[[], Shape]]] = {  # that the papers' configs name
    "sudoku-extreme": (SUDOKU_EXTREME, SUDOKU_9),
    "maze-hard": (MAZE_HARD, MAZE_30),
}

CMM_BALANCED: Changes = {  # CMM's eight terms under AlgGradNorm, as sudoku-6x6-cmm-node explains its settings
    "model.initial": "input",
    "loss.likelihood": "stablemax3",
    "loss.weights.lm": 1,
    "loss.weights.q_halt": 1,
    "loss.weights.equil_x": 1,
    "loss.weights.equil_z": 1,
    "loss.weights.rh_unstable_x": 1,
    "loss.weights.rh_stable_z": 1,
    "loss.weights.rep_x": 1,
    "loss.weights.rep_z": 1,
    "balance.kind": "alg-grad-norm",
    "balance.alpha": 0,
    "balance.every": 7,
    "balance.targets": {"lm": 50},
}
