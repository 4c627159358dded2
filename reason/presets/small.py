"""Presets for a CPU: minutes on two cores."""

from __future__ import annotations

from reason.config.overrides import derive
from reason.config.schema import Config
from reason.data.config import GenerateConfig
from reason.presets.bases import CMM_BALANCED, SUDOKU_6X6


def sudoku_6x6() -> Config:
    """TRM with an MLP mixer on 6×6 Sudoku: minutes on two cores.

    TRM's structure without a prefix; sizes and optimizer are ours, for a small machine. Measured (seed 0, n 1,000):
    99.2 % exact at step 8 in 4 minutes of two cores, installation included.
    """
    return derive(
        Config(),
        {
            "data.directory": "data/sudoku-6x6",
            "data.generate": SUDOKU_6X6,
            "model.hidden_size": 128,
            "model.expansion": 3,
            "model.mixer": "mlp",
            "model.positions": "none",
            "model.puzzle_emb_len": 0,
            "model.h_cycles": 2,
            "model.l_cycles": 3,
            "model.num_heads": 4,
            "rollout.supervision_steps": 8,
            "optimizer.lr": 1e-3,
            "optimizer.weight_decay": 0.1,
            "optimizer.schedule.warmup_steps": 50,
            "ema.warmup": True,
            "training.steps": 800,
            "training.batch_size": 128,
            "training.compile": "none",  # 1.2 times as fast compiled, which so short a run does not repay
            "training.monitor.every": 200,
        },
    )


def sudoku_6x6_attention() -> Config:
    """TRM with attention and rotary positions on 6×6 Sudoku.

    As sudoku-6x6 with the other mixer, four prefix tokens and five times the steps. Rotary positions know distances
    alone; the prefix tells a cell where it is, and without it the loss fell half as fast. The learning rate ends near
    0: most puzzles are solved only once it has fallen. Measured (seed 0, n 1,000): 97.4 % exact at step 8 in 27 minutes
    of one core.
    """
    return derive(
        sudoku_6x6(),
        {
            "model.mixer": "attention",
            "model.positions": "rotary",
            "model.puzzle_emb_len": 4,
            "optimizer.lr": 1.5e-3,
            "optimizer.schedule.kind": "cosine",
            "optimizer.schedule.min_ratio": 0.03,
            "training.steps": 4000,
            "training.monitor.every": None,
        },
    )


def sudoku_6x6_hrm() -> Config:
    """HRM on 6×6 Sudoku: two networks, one-step gradient, Q-learning.

    As sudoku-6x6-attention, with HRM's structure at D 128 (two networks of two layers, N_H 2, N_L 2) and 6,000 steps.
    Measured (seed 0, n 1,000): 91.1 % exact at step 8 in 52 minutes of one busy core.
    """
    return derive(
        sudoku_6x6_attention(),
        {
            "model.separate_networks": True,
            "model.gradient": "last-call",
            "model.l_cycles": 2,
            "rollout.halting": "q-learning",
            "loss.weights.q_continue": 0.5,
            "training.steps": 6000,
        },
    )


def maze_10x10_attention() -> Config:
    """TRM with attention on 10×10 mazes: a shortest path of 4 or more cells from S to G.

    As sudoku-6x6-attention, with softmax, batch 32 and gradients clipped to 1. A maze has no symmetry that keeps
    its tie-broken label, so the set has 20,000 mazes, half of them with paths of at most 8 cells: where all paths
    had 14 cells or more, neither mixer learned anything that held on unseen mazes. Rotary base 100, since with
    10,000 most wavelengths are far longer than a maze. Measured (seed 0, n 500): 14.4 % exact at step 8, 94.9 % of
    cells, in 15 minutes of one core.
    """
    return derive(
        sudoku_6x6_attention(),
        {
            "loss.likelihood": "softmax",
            "data.directory": "data/maze-10x10-small",
            "data.generate": GenerateConfig(name="maze", size=10, min_path=4, train=20_000, validation=500, test=500),
            "model.rope_theta": 100.0,
            "optimizer.lr": 1e-3,
            "optimizer.grad_clip": 1.0,
            "optimizer.schedule.warmup_steps": 100,
            "optimizer.schedule.min_ratio": 0.05,
            "training.steps": 2800,
            "training.batch_size": 32,
        },
    )


def sudoku_4x4() -> Config:
    """TRM with an MLP mixer on 4×4 Sudoku: one minute on two cores.

    As sudoku-6x6, narrower and shorter.
    """
    return derive(
        sudoku_6x6(),
        {
            "data.directory": "data/sudoku-4x4",
            "data.generate": GenerateConfig(name="sudoku", size=4, train=200, test=200),
            "model.hidden_size": 64,
            "training.steps": 300,
            "training.log_every": 10,
            "training.monitor.every": None,
        },
    )


def sudoku_6x6_cmm_node() -> Config:
    """CMM as an ODE on 6×6 Sudoku: all eight loss terms under AlgGradNorm.

    From the paper: the terms, StableMax3, z_H = x̂ and z_L = 0 at the start (its D 128 models), ε. Ours: sizes and
    optimizer of sudoku-6x6, at half its batch and twice its steps, and two settings of the balance, each after a run
    that failed without it (docs/log/reproduction.md). α is 0: BCE's L(0) is close to 0, so that at α = 1 the halting
    term gets seven times LM's gradient as soon as puzzles are solved. c_LM is 50. For speed, λ moves every seventh step
    and the traces are measured on 16 of the 64 rows. Measured (seed 0, n 1,000, an earlier draw of the set): 99.9 %
    exact at step 8 in 14 minutes of one thread.
    """
    return derive(
        sudoku_6x6(),
        CMM_BALANCED
        | {
            "loss.trace.rows": 16,
            "optimizer.eps": 1e-12,
            "training.steps": 1600,
            "training.batch_size": 64,
        },
    )


def sudoku_6x6_cmm_nsde() -> Config:
    """CMM as an SDE on 6×6 Sudoku: sudoku-6x6-cmm-node with additive noise, σ 0.01.

    The noise is the paper's NSDE. Measured (seed 0, n 1,000, an earlier draw of the set): 99.7 % exact at step 8 in
    13 minutes of one thread.
    """
    return derive(sudoku_6x6_cmm_node(), {"model.noise": "additive"})
