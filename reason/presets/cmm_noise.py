"""CMM, tables 7 to 11: CMM as an SDE at D 512, and both at D 128 (docs/math.md §7)."""

from __future__ import annotations

from reason.config.overrides import Changes, derive, leaves
from reason.config.schema import Config
from reason.presets.bases import MAZE_HARD
from reason.presets.cmm import (
    AS_ADAM,
    ATTENTION,
    IDENTICAL,
    INPUT,
    NSDE,
    STABLEMAX3,
    cmm_table,
    common,
    from_buffers,
    symbols,
    table_6_base,
    variant,
)
from reason.presets.tables import Departure, Row

ODE: Changes = {"model.noise": "none"}
SDE: Changes = {"model.noise": "additive"}
FREEZE: Changes = {"optimizer.freeze_embedding_after": 2500}
BALANCED: Changes = {  # λ(0) = 1 whatever a weight is, so each says only that its term is there
    "balance.kind": "alg-grad-norm",
    "loss.weights.q_halt": 1,
    "loss.weights.rep_x": 1,
    "loss.weights.rep_z": 1,
}
ADAMW: Changes = {"optimizer.kind": "adamw"}
SHARES = (
    "λ(0) = 1 for every term; a stated λ_LM is c_LM, its share of the mean gradient norm; α 0.25: on 6×6 Sudoku α = 0, "
    "0.25, 0.5 and 1 ended at 98.0, 98.5, 93.2 and 66.8 % exact (docs/reproduction.md); ρ 0.9, T_reset 1000, "
    "blend 0.5; the measured segment rotates, so that every m is seen"
)
INSTEAD_OF_MLP: Departure = (
    lambda config: leaves(config.model_dump())["model.mixer"] == "attention",
    'Attention, though the caption says "MLP-mixer": an MLP over 900 cells alone has 7 M parameters, attention '
    "263,938, and 0.26M is printed.",
)
EQUILIBRIUM_Z: Changes = {"loss.weights.equil_z": 1}
REPULSION: Changes = {"loss.weights.rep_x": 1e3, "loss.weights.rep_z": 1e3}
PLAIN_TRM: Changes = {
    "model.initial": "buffer",
    "model.noise": "none",
    "loss.likelihood": "stablemax",
    "loss.weights.equil_x": 0,
    "loss.weights.equil_z": 0,
    "loss.weights.rep_x": 0,
    "loss.weights.rep_z": 0,
}


TABLE_8_ROW_2 = symbols(N_super=2, N_accum=2, N_grad=8, eps=1e-14) | {"optimizer.weight_decay": 2}
TABLE_8_ROW_3 = symbols(N_super=3, N_accum=3, N_grad=12, eps=1e-14) | {"optimizer.weight_decay": 2}


def table_7_base() -> Config:
    """NSDE, σ 0.01, B 250, N_accum 2, N_grad 4, equilibrium in z_H alone, repulsion in x̂ and z_H."""
    return derive(common(), STABLEMAX3 | EQUILIBRIUM_Z | REPULSION | SDE | symbols(B=250, N_accum=2, N_grad=4))


def table_8_base() -> Config:
    """Table 7's base under AlgGradNorm, N_accum 16, lr 2e-4."""
    return derive(table_7_base(), BALANCED | symbols(N_accum=16, lr=2e-4))


def d_128() -> Config:
    """D 128 without prefix, z_H = x̂ and z_L = 0 at the start, equilibrium and repulsion, ε 1e-12, additive noise."""
    small = {"model.puzzle_emb_len": 0, "model.initial": "input"}
    return derive(table_6_base(), small | SDE | symbols(D=128, eps=1e-12))


def table_9_base() -> Config:
    """D 128, N_accum 2, N_grad 3."""
    return derive(d_128(), symbols(N_accum=2, N_grad=3))


def table_10_base() -> Config:
    """D 128, N_accum = N_grad = 16, B 1000, lr 2e-3, embedding frozen after 2,500 epochs, AlgGradNorm."""
    return derive(d_128(), BALANCED | FREEZE | symbols(N_accum=16, N_grad=16, B=1000, lr=2e-3))


def table_11_base() -> Config:
    """Mazes at D 128 with attention, N_H 3, N_L 4, N_accum = N_grad = 4, B 100, lr 2e-4, AlgGradNorm."""
    frozen = {"optimizer.freeze_embedding_after": 5000}
    numbers = symbols(N_L=4, N_accum=4, N_grad=4, B=100, lr=2e-4)
    return derive(d_128(), MAZE_HARD | ATTENTION | BALANCED | frozen | numbers)


TABLES = (
    cmm_table(
        7, "CMM-512 NSDE. D 512, B 250, N_grad 4, AMP, N_accum 2, N_H 3, N_L 6, StableMax3, equilibrium in z_H, "
        "repulsion for z_H and x, σ 0.01.", table_7_base,
        (
            Row("1", "N_super=8, learning rate 3e-4", "87.4", symbols(N_super=8, lr=3e-4)),
            Row("2", "N_super=16, learning rate 2e-4", "91.7", symbols(lr=2e-4)),
            Row("3", "N_super=16, learning rate 1e-4", "91.1"),
            Row(
                "4", "N_super=16, N_accum=16, N_grad=64, learning rate 2e-4", "93.7",
                symbols(N_accum=16, N_grad=64, lr=2e-4),
            ),
            Row(
                "5", "B=1000, N_super=16, N_accum=16, N_grad=16, learning rate 2e-4, gradient checkpointing", "92.7",
                symbols(B=1000, N_accum=16, N_grad=16, lr=2e-4) | {"model.gradient_checkpointing": True},
            ),
            variant(
                "4-input", "row 4 from z_H(0) = x̂", symbols(N_accum=16, N_grad=64, lr=2e-4) | INPUT,
            ),
        ),
        "additive noise, in cycles without gradient too",
        (from_buffers("cmm-7-4-input", NSDE),),
    ),
    cmm_table(
        8, "CMM-512 NSDE with AlgGradNorm. D 512, B 250, AMP, N_accum 16, N_H 3, N_L 6, StableMax3, equilibrium "
        "in z_H, repulsion for z_H and x, σ 0.01, weight decay 1, learning rate 2e-4.", table_8_base,
        (
            Row("1", "N_super=16, N_grad=64, λ_LM=2", "80.2", symbols(N_grad=64) | {"balance.targets": {"lm": 2}}),
            Row(
                "2", "N_super=2, N_grad=8, Adam epsilon 1e-14, weight decay 2", "89.8",
                TABLE_8_ROW_2,
                ours="N_accum = N_super, which the general N_accum 16 would exceed.",
            ),
            Row(
                "3", "N_super=3, N_grad=12, Adam epsilon 1e-14, weight decay 2", "91.7",
                TABLE_8_ROW_3,
                ours="N_accum = N_super, which the general N_accum 16 would exceed.",
            ),
            variant("2-adamw", "row 2 with AdamW", TABLE_8_ROW_2 | ADAMW),
            variant("3-adamw", "row 3 with AdamW", TABLE_8_ROW_3 | ADAMW),
            variant("3-input", "row 3 from z_H(0) = x̂", TABLE_8_ROW_3 | INPUT),
        ),
        SHARES,
        (AS_ADAM, from_buffers("cmm-8-3-input", NSDE)),
    ),
    cmm_table(
        9, "CMM-128: NODE and NSDE. D 128, AMP, N_super 16, N_accum 2, N_grad 3, MLP mixer, StableMax3, "
        "equilibrium and repulsion, learning rate 1e-4, ε 1e-12, z_H = x, z_L = 0.", table_9_base,
        (
            Row("1", "CMM NODE, N_H=2, N_L=4, B=256", "20.3", symbols(N_H=2, N_L=4) | ODE, "0.52M"),
            Row(
                "2", "TRM, N_H=3, N_L=6, B=250, N_grad=4, N_super=8, Attention", "23.8",
                symbols(B=250, N_grad=4, N_super=8) | ATTENTION | PLAIN_TRM,
                "0.52M", "TRM has none of CMM's losses, TRM's initial state and StableMax, and no prefix.",
            ),
            Row(
                "3", "CMM NODE, N_H=3, N_L=6, B=250, N_grad=4, learning rate 3e-4, Attention", "31.4",
                symbols(B=250, N_grad=4, lr=3e-4) | ATTENTION | ODE, "0.52M",
            ),
            Row(
                "4", "CMM NSDE, N_H=2, N_L=4, B=250, N_grad=4, N_super=8", "63.4",
                symbols(N_H=2, N_L=4, B=250, N_grad=4, N_super=8), "0.52M",
            ),
            Row(
                "5", "CMM NSDE, N_H=3, N_L=6, B=250, N_grad=4, N_super=8, learning rate 3e-4", "71.4",
                symbols(B=250, N_grad=4, N_super=8, lr=3e-4), "0.52M",
            ),
            Row(
                "6", "CMM NSDE, N_H=3, N_L=6, B=1000, N_grad=1, N_super=8, learning rate 3e-4", "74.4",
                symbols(B=1000, N_grad=1, N_super=8, lr=3e-4), "0.52M",
            ),
            Row(
                "7", "CMM NSDE, N_H=3, N_L=6, B=250, N_accum=8, N_grad=32, N_super=8, learning rate 1e-4", "34.8",
                symbols(B=250, N_accum=8, N_grad=32, N_super=8),
                "0.52M",
            ),
            Row(
                "8", "CMM NSDE, N_H=3, N_L=6, B=250, N_accum=16, N_grad=64, N_super=16, learning rate 2e-3", "70.9",
                symbols(B=250, N_accum=16, N_grad=64, lr=2e-3), "0.52M",
            ),
            Row(
                "9", "CMM NSDE, N_H=3, N_L=6, B=250, N_accum=4, N_grad=16, N_super=4, learning rate 2e-3", "61.0",
                symbols(B=250, N_accum=4, N_grad=16, N_super=4, lr=2e-3), "0.52M",
            ),
            Row(
                "10", "CMM NSDE, N_H=3, N_L=6, B=250, N_accum=4, N_grad=16, N_super=4, learning rate 2e-3, freeze "
                "embedding after 2500 epoch", "61.5",
                symbols(B=250, N_accum=4, N_grad=16, N_super=4, lr=2e-3) | FREEZE, "0.52M",
            ),
            Row(
                "11", "CMM NSDE, N_H=3, N_L=6, B=1000, N_accum=16, N_grad=16, N_super=16, learning rate 2e-3, freeze "
                "embedding after 2500 epoch, AlgGradNorm", "85.0",
                symbols(B=1000, N_accum=16, N_grad=16, lr=2e-3) | FREEZE | BALANCED, "0.52M",
            ),
            Row(
                "12", "CMM NSDE, N_H=3, N_L=6, B=1000, N_accum=16, N_grad=16, N_super=16, learning rate 2e-3, freeze "
                "embedding after 2500 epoch, AlgGradNorm, identical transformer layers", "84.7",
                symbols(B=1000, N_accum=16, N_grad=16, lr=2e-3) | FREEZE | BALANCED | IDENTICAL, "0.26M",
            ),
            variant("8-adamw", "row 8 with AdamW", symbols(B=250, N_accum=16, N_grad=64, lr=2e-3) | ADAMW),
        ),
        f"no prefix, 8 heads, additive noise σ 0.01; where a row is balanced, {SHARES}",
        (AS_ADAM,),
    ),
    cmm_table(
        10, "CMM-128 NSDE. D 128, N_H 3, N_L 6, AMP, N_super 16, N_accum 16, N_grad 16, B 1000, MLP mixer, "
        "StableMax3, equilibrium and repulsion, learning rate 2e-3, embedding frozen after 2,500 epochs, AlgGradNorm, "
        "ε 1e-12, z_H = x, z_L = 0.", table_10_base,
        (
            Row(
                "1", "initial z_H and z_L as in baseline, epsilon 1e-8", "77.8",
                {"model.initial": "buffer"} | symbols(eps=1e-8), "0.52M",
            ),
            Row("2", "epsilon 1e-8", "81.8", symbols(eps=1e-8), "0.52M"),
            Row("3", "epsilon 1e-12", "85.0", {}, "0.52M"),
            Row("4", "epsilon 1e-14", "86.1", symbols(eps=1e-14), "0.52M"),
            Row("5", "epsilon 1e-14, identical transformer layers", "85.4", symbols(eps=1e-14) | IDENTICAL, "0.26M"),
            variant("1-adamw", "row 1 with AdamW", {"model.initial": "buffer"} | symbols(eps=1e-8) | ADAMW),
            variant("2-adamw", "row 2 with AdamW", symbols(eps=1e-8) | ADAMW),
            variant("3-adamw", "row 3 with AdamW", ADAMW),
            variant("4-adamw", "row 4 with AdamW", symbols(eps=1e-14) | ADAMW),
            variant("5-adamw", "row 5 with AdamW", symbols(eps=1e-14) | IDENTICAL | ADAMW),
        ),
        f"no prefix, additive noise σ 0.01; {SHARES}",
        (AS_ADAM,),
    ),
    cmm_table(
        11, "CMM-128 on Maze-Hard. D 128, N_H 3, N_L 4, AMP, N_super 16, N_accum 4, N_grad 4, B 100, StableMax3, "
        "equilibrium and repulsion, learning rate 2e-4, embedding frozen after 5,000 epochs, AlgGradNorm, z_H = x, "
        "z_L = 0.", table_11_base,
        (
            Row(
                "1", "λ_LM=10, epsilon 1e-14, identical transformer layers", "82.2",
                {"balance.targets": {"lm": 10}} | symbols(eps=1e-14) | IDENTICAL, "0.26M",
            ),
            variant(
                "1-adamw", "row 1 with AdamW",
                {"balance.targets": {"lm": 10}} | symbols(eps=1e-14) | IDENTICAL | ADAMW,
            ),
        ),
        f"no prefix, additive noise σ 0.01; {SHARES}",
        (AS_ADAM, INSTEAD_OF_MLP),
        maze=True,
    ),
)  # fmt: skip
