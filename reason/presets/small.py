"""Recipes for a CPU: minutes on two cores, made for learning how these models learn."""

from __future__ import annotations

from reason.config.schedules import ScheduleConfig
from reason.config.schema import Config
from reason.data import DataConfig
from reason.losses import LossConfig, LossWeights
from reason.losses.balance import BalanceConfig
from reason.losses.stability import TraceConfig
from reason.models import LoopedConfig, RecursiveConfig
from reason.rollout import LoopsConfig, RolloutConfig
from reason.training.config import TrainingConfig
from reason.training.ema import EmaConfig
from reason.training.monitor import MonitorConfig
from reason.training.optim import OptimizerConfig


def sudoku_6x6() -> Config:
    """TRM with an MLP mixer on 6×6 Sudoku: minutes on two cores (the demo).

    Structure: TRM (MLP mixer, no prefix). Sizes and optimizer: ours, for a small machine.
    """
    return Config(
        data=DataConfig(
            directory="data/sudoku-6x6",
            generate="sudoku --size 6 --train 2500 --validation 500 --test 1000 --seed 0",
        ),
        model=RecursiveConfig(
            hidden_size=128,
            expansion=3,
            mixer="mlp",
            positions="none",
            puzzle_emb_len=0,
            h_cycles=2,
            l_cycles=3,
            num_heads=4,
        ),
        rollout=RolloutConfig(supervision_steps=8),
        optimizer=OptimizerConfig(lr=1e-3, weight_decay=0.1, schedule=ScheduleConfig(warmup_steps=50)),
        ema=EmaConfig(warmup=True),
        training=TrainingConfig(steps=800, batch_size=128, monitor=MonitorConfig(every=200)),
    )


def sudoku_6x6_attention() -> Config:
    """TRM with attention and rotary positions on 6×6 Sudoku.

    As sudoku-6x6 with the other mixer, four prefix tokens (rotary positions know distances alone; the prefix
    tells a cell where it is: without it the loss fell half as fast) and five times the steps, at a learning rate
    that ends near 0: most puzzles are solved only once it has fallen.
    """
    base = sudoku_6x6()
    falling = ScheduleConfig(kind="cosine", warmup_steps=50, min_ratio=0.03)
    return base.model_copy(
        update={
            "model": base.model.model_copy(update={"mixer": "attention", "positions": "rotary", "puzzle_emb_len": 4}),
            "optimizer": base.optimizer.model_copy(update={"lr": 1.5e-3, "schedule": falling}),
            "training": base.training.model_copy(update={"steps": 4000, "monitor": MonitorConfig()}),
        }
    )


def sudoku_6x6_hrm() -> Config:
    """HRM on 6×6 Sudoku: two networks, one-step gradient, Q-learning.

    As sudoku-6x6-attention, with HRM's structure in small (two networks of two layers, N_H 2, N_L 2) and 6,000 steps.
    """
    base = sudoku_6x6_attention()
    structure = {"separate_networks": True, "gradient": "last-call", "l_cycles": 2}
    return base.model_copy(
        update={
            "model": base.model.model_copy(update=structure),
            "rollout": base.rollout.model_copy(update={"halting": "q-learning"}),
            "loss": LossConfig(weights=LossWeights(q_continue=0.5)),
            "training": base.training.model_copy(update={"steps": 6000}),
        }
    )


def sudoku_6x6_looped() -> Config:
    """A looped transformer on 6×6 Sudoku, every cell seeing all others: 8 loops, each of them scored.

    As sudoku-6x6 in size, data and averages; one Llama layer, pre-sandwich, the puzzle added at every loop (all ours).
    """
    base = sudoku_6x6()
    return base.model_copy(
        update={
            "model": LoopedConfig(
                hidden_size=128,
                num_heads=4,
                expansion=3,
                block="llama",
                norm="rmsnorm",
                norm_placement="pre-sandwich",
                causal=False,
                input_injection=True,
                dropout=0,
                init_std=0.06,
            ),
            "rollout": RolloutConfig(
                supervision_steps=1,
                carry="fresh",
                halting="none",
                loops=LoopsConfig(count=8, supervision="per-loop"),
            ),
            "loss": LossConfig(weights=LossWeights(q_halt=0)),
            "optimizer": base.optimizer.model_copy(update={"grad_clip": 1.0}),
        }
    )


def maze_10x10() -> Config:
    """TRM with attention on 10×10 mazes: a shortest path of 4 or more cells from S to G.

    As addition-3, with 20,000 mazes (a maze has no symmetry that keeps its tie-broken label), half of them with paths
    of at most 8 cells: where all had 14 or more, neither mixer learned anything that held on unseen mazes. Batch 32,
    gradients clipped to 1. Rotary base 100, since with 10,000 most wavelengths are far longer than a maze.
    """
    base = addition_3()
    falling = base.optimizer.schedule.model_copy(update={"warmup_steps": 100, "min_ratio": 0.05})
    return base.model_copy(
        update={
            "data": DataConfig(
                directory="data/maze-10x10",
                generate="maze --size 10 --min-path 4 --train 20000 --validation 500 --test 500 --seed 0",
            ),
            "model": base.model.model_copy(update={"rope_theta": 100.0}),
            "optimizer": base.optimizer.model_copy(update={"lr": 1e-3, "grad_clip": 1.0, "schedule": falling}),
            "training": base.training.model_copy(update={"steps": 2800, "batch_size": 32}),
        }
    )


def addition_3() -> Config:
    """TRM with attention on 3-digit addition, the answer's cells blank.

    As sudoku-6x6-attention, with 20,000 of the 810,000 sums, softmax (StableMax stayed at a third of the cells for as
    long as it was tried) and 2,500 steps.
    """
    base = sudoku_6x6_attention()
    return base.model_copy(
        update={
            "data": DataConfig(
                directory="data/addition-3",
                generate="addition --digits 3 --blank-answer --train 20000 --validation 500 --test 1000 --seed 0",
            ),
            "loss": LossConfig(likelihood="softmax"),
            "training": base.training.model_copy(update={"steps": 2500}),
        }
    )


def sudoku_4x4() -> Config:
    """TRM with an MLP mixer on 4×4 Sudoku: one minute, to try an idea in.

    As sudoku-6x6, narrower and shorter.
    """
    base = sudoku_6x6()
    return base.model_copy(
        update={
            "data": DataConfig(directory="data/sudoku-4x4", generate="sudoku --size 4 --train 200 --test 200 --seed 0"),
            "model": base.model.model_copy(update={"hidden_size": 64}),
            "training": TrainingConfig(steps=300, batch_size=128, log_every=10),
        }
    )


def sudoku_6x6_cmm_node() -> Config:
    """CMM as an ODE on 6×6 Sudoku: all eight loss terms under AlgGradNorm.

    From the paper: the terms, StableMax3, z_H = x̂ and z_L = 0 at the start (its D 128 models), ε. Ours: sizes and
    optimizer as sudoku-6x6, at half its batch and twice its steps, and four settings of the balance, each after a run
    that failed without it (docs/reproduction.md). α is 0: BCE's L(0) is next to nothing, so that at α = 1 the halting
    term gets seven times LM's gradient as soon as puzzles are solved. c_LM is 50, and λ starts at 10 for LM and 1 for
    the rest. λ moves every seventh step, a number that does not divide N_super, so that every m is measured. The
    traces are measured on 16 of the 64 rows.
    """
    base = sudoku_6x6()
    weights = LossWeights(lm=10, q_halt=1, equil_x=1, equil_z=1, rh_unstable_x=1, rh_stable_z=1, rep_x=1, rep_z=1)
    return base.model_copy(
        update={
            "model": base.model.model_copy(update={"initial": "input"}),
            "loss": LossConfig(likelihood="stablemax3", weights=weights, trace=TraceConfig(rows=16)),
            "balance": BalanceConfig(kind="alg-grad-norm", alpha=0, every=7, targets={"lm": 50}),
            "optimizer": base.optimizer.model_copy(update={"eps": 1e-12}),
            "training": base.training.model_copy(update={"steps": 1600, "batch_size": 64}),
        }
    )


def sudoku_6x6_cmm_nsde() -> Config:
    """CMM as an SDE on 6×6 Sudoku: sudoku-6x6-cmm-node with additive noise, σ 0.01.

    Noise as the paper's NSDE; the rest as sudoku-6x6-cmm-node.
    """
    base = sudoku_6x6_cmm_node()
    return base.model_copy(update={"model": base.model.model_copy(update={"noise": "additive"})})
