"""Presets whose mixers read the puzzle's structure: mazes and 9×9 Sudoku on a laptop."""

from __future__ import annotations

from reason.config.overrides import Changes, derive
from reason.config.schema import Config
from reason.data.config import GenerateConfig
from reason.presets.bases import CMM_BALANCED, SUDOKU_6X6, SUDOKU_EXTREME

NARROW: Changes = {  # one state of width 32, twelve layers a step in two-layer calls with all their gradients, Muon
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
    "optimizer.kind": "muon",
    "optimizer.weight_decay": 0.1,
    "optimizer.grad_clip": 1.0,
    "optimizer.schedule.kind": "cosine",
    "optimizer.schedule.warmup_steps": 100,
    "optimizer.schedule.min_ratio": 0.05,
    "ema.decay": 0.995,
    "ema.warmup": True,
    "training.batch_size": 32,
}
HRM: Changes = {  # two networks, the gradient through the last call of each, Q-learning
    "model.states": 2,
    "model.separate_networks": True,
    "model.num_layers": 2,
    "model.h_cycles": 2,
    "model.l_cycles": 2,
    "model.gradient": "last-call",
    "rollout.halting": "q-learning",
    "loss.weights.q_continue": 0.5,
}
CMM: Changes = CMM_BALANCED | {"loss.trace.rows": 4}


def maze_10x10_narrow() -> Config:
    """TRM with gated messages between neighbouring cells on 10×10 mazes, for mazes of any size: 45,506 parameters.

    Breadth-first search with a fixed tie-break is a local rule. Walls send nothing to their neighbours, nor does what
    lies beyond the edge, and no weight knows the size of the grid. 80,000 mazes with paths of 4 cells or more (half of
    them of at most 8) and 40,000 with 18 or more train in turn: from the first alone nothing carries over to larger
    mazes. All ours. Measured (seed 0, 5 min 30 s of one core's time): 98.0 % exact at step 8, 98.3 % at steps 32 to 64
    (n 1,000); with the same weights 72 % of 20×20 (n 200) and 5 to 7 % of 30×30 mazes (n 60; docs/log/structure.md).
    """
    return derive(
        Config(),
        NARROW
        | {
            "data.directory": "data/maze-10x10,data/maze-10x10-long",
            "data.generate": GenerateConfig(
                name="maze", size=10, min_path=(4, 18), train=(80_000, 40_000), validation=500, test=(1000, 500)
            ),
            "model.mixer": "local",
            "model.neighbourhood": "von-neumann",
            "model.num_layers": 4,
            "model.l_cycles": 2,
            "model.expansion": 1,
            "rollout.supervision_steps": 8,
            "rollout.halt_exploration_prob": 0.5,
            "loss.weights.lm": 3,
            "optimizer.lr": 2e-3,
            "training.steps": 8000,
            "training.monitor.every": 2000,
        },
    )


def maze_10x10() -> Config:
    """maze-10x10-narrow twice as wide and 9,000 steps long: 181,122 parameters.

    Measured (three seeds, n 1,000): 98.9 ± 0.3 % exact at step 8, 99.0 ± 0.3 % at step 64; any shortest path counted,
    99.1 and 99.2 %. Six minutes of two cores of AMD with AVX-512 and bf16, nine of one (docs/log/by-file.md).
    """
    wide: Changes = {"model.hidden_size": 64, "optimizer.muon_lr": 0.01, "training.steps": 9000}
    return derive(maze_10x10_narrow(), wide)


def maze_any() -> Config:
    """TRM with gated messages between neighbours, trained on mazes of 7, 11 and 15 rows in turn, for mazes of any size.

    As maze-10x10-narrow, twice as wide, at a quarter of Muon's learning rate, N_super 16, 20,000 steps. The larger the
    mazes, the longer their paths (at least 4, 12 and 34 cells): short ones are learned first, long ones teach the state
    to stay right for as long as a path needs. Walls, which send nothing, take no part. Measured (seed 0, step 32, n 300
    each): 96.0 % of 15×15, 91.7 % of 20×20, 87.0 % of 30×30 mazes with paths of 110 cells or more; with walls that have
    a state, three seeds, 96.4, 91.2 and 84.8 % (docs/log/by-file.md).
    """
    return derive(
        maze_10x10_narrow(),
        {
            "data.directory": "data/maze-7x7,data/maze-11x11,data/maze-15x15",
            "data.generate": GenerateConfig(
                name="maze",
                size=(7, 11, 15),
                min_path=(4, 12, 34),
                train=(10_000, 30_000, 40_000),
                validation=200,
                test=500,
            ),
            "model.hidden_size": 64,
            "model.open_cells": True,
            "rollout.supervision_steps": 16,
            "optimizer.muon_lr": 0.005,
            "ema.decay": 0.999,
            "training.steps": 20000,
            "training.checkpoint_every": 1000,
        },
    )


def within_groups() -> Config:
    """The recipe for messages within groups, with a position for every (cell, symbol)."""
    return derive(
        Config(),
        NARROW
        | SUDOKU_EXTREME
        | {
            "data.augment": False,
            "data.hints": 3,
            "model.mixer": "groups",
            "model.symbols": True,
            "model.initial": "random",
            "model.expansion": 2,
            "rollout.supervision_steps": 16,
            "optimizer.lr": 3e-3,
            "optimizer.muon_lr": 0.01,
            "training.steps": 8000,
            "training.checkpoint_every": 1000,
        },
    )


def sudoku_9x9() -> Config:
    """TRM with messages in rows, columns, boxes and cells, on hard 9×9 Sudoku: 45,282 parameters.

    Every (cell, digit) has a position: 729 of them, in 324 groups of nine. Renaming digits and moving rows within bands
    or whole bands permute the answer exactly, so that augmentation would add transposition alone. The initial state is
    random: equal ones could not tell two cells apart that nothing distinguishes. Positions whose symbol the clues
    exclude take no part. Every second puzzle is drawn with one to three hints. All ours. Measured with all symbols and
    augmentation on the field's 1,000 published puzzles (seed 0, n 1,000): 38.1 % exact at step 64
    (docs/results/families-real-end.json). On the set that it names: not measured.
    """
    return derive(within_groups(), {"model.open_symbols": True})


def sudoku_6x6_groups() -> Config:
    """TRM with messages in rows, columns, boxes and cells, on 6×6 Sudoku: sudoku-6x6's set, 45,282 parameters.

    As sudoku-9x9, with all symbols, without hints, with N_super 8 and in eager mode. Measured (three seeds, n 1,000):
    86.0 ± 2.1 % exact at step 1, 99.3 ± 0.2 % at step 8 (docs/results/sudoku-6x6-groups.json).
    """
    return derive(
        within_groups(),
        {
            "data.directory": "data/sudoku-6x6",
            "data.hints": 0,
            "data.generate": SUDOKU_6X6,
            "rollout.supervision_steps": 8,
            "training.compile": "none",
            "training.steps": 800,
            "training.checkpoint_every": 200,
            "training.monitor.every": 100,
        },
    )


def sudoku_9x9_long() -> Config:
    """sudoku-9x9 twice as wide and 50,000 steps long, with up to six hints: 180,674 parameters.

    The recipe for published puzzles; all ours. Measured from the field's 1,000 of them (seed 0, 4.1 hours of one core):
    98.8 % exact at step 64 of those with 17 clues (n 1,000), 58.2 % of the hardest of the forums (n 3,500), 69.1 %
    weighted as in Sudoku-Extreme (docs/results/sudoku-real-1k.json). From 10,000 generated puzzles of `--mix extreme`,
    with three hints and 24,000 steps: 68.4 % (docs/results/sudoku-generated.json). On the set that it names: not
    measured.
    """
    return derive(
        sudoku_9x9(),
        {
            "data.augment": True,
            "data.hints": 6,
            "model.hidden_size": 64,
            "optimizer.muon_lr": 0.006,
            "optimizer.lr": 2e-3,
            "ema.decay": 0.999,
            "training.steps": 50000,
            "training.checkpoint_every": 2000,
            "training.monitor.every": 2000,
        },
    )


def maze_10x10_hrm() -> Config:
    """HRM with gated messages between neighbouring cells, on 10×10 mazes.

    As maze-10x10-narrow, with two networks of two layers (N_H 2, N_L 2), one-step gradient and Q-learning. Not tuned.
    """
    return derive(maze_10x10_narrow(), HRM)


def maze_10x10_cmm_node() -> Config:
    """CMM as an ODE with gated messages between neighbouring cells, on 10×10 mazes: all eight terms.

    As maze-10x10-narrow, with two states, terms and balance of sudoku-6x6-cmm-node; traces on 4 of 32 rows. Not tuned.
    """
    return derive(maze_10x10_narrow(), CMM | {"model.states": 2, "training.compile": "none"})


def maze_10x10_cmm_nsde() -> Config:
    """CMM as an SDE on 10×10 mazes: maze-10x10-cmm-node with additive noise, σ 0.01. Not tuned."""
    return derive(maze_10x10_cmm_node(), {"model.noise": "additive"})


def sudoku_9x9_hrm() -> Config:
    """HRM with messages in rows, columns, boxes and cells, on hard 9×9 Sudoku.

    As sudoku-9x9, with all symbols, two networks of two layers (N_H 2, N_L 2), one-step gradient and Q-learning. Not
    tuned.
    """
    return derive(within_groups(), HRM)


def sudoku_9x9_cmm_node() -> Config:
    """CMM as an ODE with messages in groups, on hard 9×9 Sudoku: all eight terms.

    sudoku-9x9 with all symbols, terms and balance as sudoku-6x6-cmm-node, traces on 4 of 32 rows. Of CMM's states it
    keeps one, and it starts at random. Measured on the field's 1,000 published puzzles (seed 0, n 1,000): 33.1 % exact
    at step 64 (docs/results/families-real-end.json).
    """
    return derive(within_groups(), CMM | {"model.initial": "random"})


def sudoku_9x9_cmm_nsde() -> Config:
    """CMM as an SDE on 9×9 Sudoku: sudoku-9x9-cmm-node with additive noise, σ 0.01. Not tuned."""
    return derive(sudoku_9x9_cmm_node(), {"model.noise": "additive"})
