"""Presets whose mixers read the puzzle's structure: mazes and 9×9 Sudoku on a laptop."""

from __future__ import annotations

from reason.config.overrides import Changes, derive
from reason.config.schema import Config
from reason.presets.bases import SUDOKU_EXTREME

NARROW: Changes = {  # one state of width 32, two layers a call, six calls a step with all their gradients
    "model.hidden_size": 32,
    "model.num_heads": 1,
    "model.positions": "none",
    "model.puzzle_emb_len": 0,
    "model.states": 1,
    "model.h_cycles": 1,
    "model.l_cycles": 5,
    "model.gradient": "all-cycles",
    "model.q_from": "mean",
    "loss.likelihood": "softmax",
    "optimizer.kind": "adamw",
    "optimizer.weight_decay": 0.1,
    "optimizer.grad_clip": 1.0,
    "optimizer.schedule.kind": "cosine",
    "optimizer.schedule.warmup_steps": 100,
    "optimizer.schedule.min_ratio": 0.05,
    "ema.decay": 0.995,
    "ema.warmup": True,
    "training.batch_size": 32,
}


def maze_10x10() -> Config:
    """TRM with a gated 3×3 convolution on 10×10 mazes: 39,362 parameters, for mazes of any size.

    Breadth-first search with a fixed tie-break is a local rule, and walls send nothing to their neighbours, just as
    what lies beyond the edge. No weight knows the size of the grid. All ours; 20,000 mazes, half of them with paths of
    at most 8 cells.
    """
    return derive(
        Config(),
        NARROW
        | {
            "data.directory": "data/maze-10x10",
            "data.generate": "maze --size 10 --min-path 4 --train 20000 --validation 500 --test 1000 --seed 0",
            "model.mixer": "local",
            "model.expansion": 1,
            "rollout.supervision_steps": 8,
            "rollout.halt_exploration_prob": 0.5,
            "loss.weights.lm": 3,
            "optimizer.lr": 2e-3,
            "training.steps": 6000,
            "training.monitor.every": 1000,
        },
    )


def maze_any() -> Config:
    """TRM with a gated 3×3 convolution, trained on mazes of 7, 11 and 15 rows in turn, for mazes of any size.

    As maze-10x10; the larger the mazes, the longer their paths (at least 4, 12 and 34 cells): short ones are learned
    first, long ones teach the state to stay right for as long as a path needs. N_super 16.
    """
    sizes = {7: 4, 11: 12, 15: 34}  # rows: fewest cells of a path
    made = [f"maze --size {n} --min-path {cells} --train 10000 --validation 200" for n, cells in sizes.items()]
    return derive(
        maze_10x10(),
        {
            "data.directory": ",".join(f"data/maze-{n}x{n}" for n in sizes),
            "data.generate": "; ".join(f"{command} --test 500 --seed 0" for command in made),
            "rollout.supervision_steps": 16,
            "training.steps": 30000,
        },
    )


def sudoku_9x9() -> Config:
    """TRM with messages in rows, columns, boxes and cells, on 1,000 puzzles of Sudoku-Extreme's mix: 45,282 parameters.

    A position for every (cell, digit): 729 of them, in 324 groups of nine. Renaming digits and moving rows within bands
    or whole bands permute the answer exactly, so that augmentation would add transposition alone. All ours.
    """
    return derive(
        Config(),
        NARROW
        | SUDOKU_EXTREME
        | {
            "data.augment": False,
            "model.mixer": "groups",
            "model.symbols": True,
            "model.expansion": 2,
            "rollout.supervision_steps": 16,
            "optimizer.lr": 3e-3,
            "training.steps": 20000,
            "training.checkpoint_every": 1000,
        },
    )


def sudoku_9x9_long() -> Config:
    """The same for three times as long."""
    return derive(sudoku_9x9(), {"training.steps": 60000})
