"""CMM, tables 1 to 6: HRM and TRM as the authors ran them again, and CMM as an ODE at D 512 (MATH.md §3)."""

from __future__ import annotations

from reason.config.schema import Config
from reason.losses import LossConfig, LossWeights
from reason.models import RecursiveConfig
from reason.presets.authors import MAZE_HARD, OPTIMIZER, SUDOKU_EXTREME, hrm_sudoku
from reason.presets.tables import PaperTable, Row
from reason.rollout import RolloutConfig
from reason.training.config import TrainingConfig

EQUILIBRIUM_XZ = "loss.weights.equil_x=1 loss.weights.equil_z=1"
ROUTH_HURWITZ = "loss.weights.rh_unstable_x=10 loss.weights.rh_stable_z=1e4"
STABLEMAX3 = "loss.likelihood=stablemax3"
IDENTICAL = "model.num_layers=1 model.repeats=2"
TANH = "model.activation=tanh"
RECOMPUTED = "model.gradient_checkpointing=true"  # rows that else take more than 16 GB; it changes no number
SILENT = (
    "carry persistent; compile off (the paper compiles: training.compile=inductor on a GPU); gradient checkpointing "
    "where 16 GB would not do."
)


def common() -> Config:
    """What the tables share: D 512, MLP mixer, N_super 16, B 256, lr 1e-4 after 2,000 warm-up steps, EMA."""
    return Config(
        data=SUDOKU_EXTREME,
        model=RecursiveConfig(mixer="mlp", positions="none"),
        optimizer=OPTIMIZER,
        training=TrainingConfig(batch_size=256),
    )


def changed(base: Config, **sections: dict[str, object]) -> Config:
    """The config with some keys of some sections replaced."""
    return base.model_copy(
        update={name: getattr(base, name).model_copy(update=keys) for name, keys in sections.items()}
    )


def hrm_again() -> Config:
    """HRM's structure, losses and halting on the common base."""
    base, hrm = common(), hrm_sudoku()
    return base.model_copy(update={"model": hrm.model, "rollout": hrm.rollout, "loss": hrm.loss, "ema": hrm.ema})


def trm_maze() -> Config:
    """TRM with attention on mazes, gradients accumulated."""
    return common().model_copy(
        update={
            "data": MAZE_HARD,
            "model": RecursiveConfig(l_cycles=4, gradient_checkpointing=True),
            "rollout": RolloutConfig(grad_steps=10),
            "training": TrainingConfig(batch_size=128),
        }
    )


def equilibrium_base() -> Config:
    """Tables 5 and 6: StableMax3, equilibrium in x̂ and z_H, N_accum 2."""
    loss = LossConfig(likelihood="stablemax3", weights=LossWeights(equil_x=1, equil_z=1))
    return changed(common().model_copy(update={"loss": loss}), rollout={"accum_steps": 2})


def table_5_base() -> Config:
    """Equilibrium, N_H 2 and N_L 4."""
    return changed(equilibrium_base(), model={"h_cycles": 2, "l_cycles": 4})


def table_6_base() -> Config:
    """Equilibrium and repulsion, N_H 3 and N_L 6."""
    base = equilibrium_base()
    weights = base.loss.weights.model_copy(update={"rep_x": 1e3, "rep_z": 1e3})
    return changed(base, loss={"weights": weights}, model={"gradient_checkpointing": True})


TABLES = (
    PaperTable(
        "cmm-1", "HRM on Sudoku-Extreme, the authors' own run. D 512, AMP.", False, hrm_again,
        (Row("hrm", "HRM (our run), AMP", 45.9, parameters="27M"),),
        f"batch and epochs are those of the CMM runs; {SILENT}",
    ),
    PaperTable(
        "cmm-1", "TRM on Sudoku-Extreme, the authors' own run. D 512, AMP, MLP mixer.", False, common,
        (Row("trm", "TRM (our run), AMP, MLP-mixer", 79.1, parameters="5M"),),
        f"batch and epochs are those of the CMM runs; {SILENT}",
    ),
    PaperTable(
        "cmm-2", "TRM on Maze-Hard, the authors' own run. D 512, AMP.", True, trm_maze,
        (Row("trm", "TRM (our run), AMP (gradient accumulation on 10 segments)", 84.2, parameters="7M"),),
        f"attention and N_L 4 as TRM's own maze setting, since the table names neither, and its batch of 128; {SILENT}",
    ),
    PaperTable(
        "cmm-3", "TRM on Sudoku-Extreme. D 512, AMP, N_super 16, N_H 3, N_L 6, MLP mixer, N_accum = N_super.", False,
        lambda: changed(common(), rollout={"accum_steps": 16}),
        (
            Row("1", "B=256", 69.6),
            Row("2", "SiLU to tanh, B=256", 81.8, TANH),
            Row(
                "3", "SiLU to tanh, B=64, N_grad=4, all states of the H-module for gradient calculation", 56.8,
                f"{TANH} training.batch_size=64 rollout.grad_steps=4 model.gradient=all-cycles",
            ),
        ),
        SILENT,
    ),
    PaperTable(
        "cmm-4", "CMM-512 NODE: N_H and N_L. D 512, AMP, N_super 16, N_grad 1, B 256, MLP mixer, StableMax.", False,
        common,
        (
            Row("1", "N_H=1, N_L=2, tanh", 58.9, f"model.h_cycles=1 model.l_cycles=2 {TANH}"),
            Row("2", "N_H=1, N_L=2", 63.8, "model.h_cycles=1 model.l_cycles=2"),
            Row("3", "N_H=1, N_L=4", 68.9, "model.h_cycles=1 model.l_cycles=4"),
            Row("4", "N_H=1, N_L=6", 68.7, "model.h_cycles=1 model.l_cycles=6"),
            Row("5", "N_H=2, N_L=1", 64.6, "model.h_cycles=2 model.l_cycles=1"),
            Row("6", "N_H=2, N_L=2", 70.5, "model.h_cycles=2 model.l_cycles=2"),
            Row("7", "N_H=2, N_L=4", 75.3, "model.h_cycles=2 model.l_cycles=4"),
            Row("8", "N_H=2, N_L=6", 76.4, "model.h_cycles=2 model.l_cycles=6"),
            Row("9", "N_H=2, N_L=4, StableMax3", 78.3, f"model.h_cycles=2 model.l_cycles=4 {STABLEMAX3}"),
            Row(
                "10", "N_H=2, N_L=4, StableMax3, tanh", 77.1,
                f"model.h_cycles=2 model.l_cycles=4 {STABLEMAX3} {TANH}",
            ),
            Row(
                "11", "N_H=1, N_L=2, StableMax3, RH unstable x and RH stable z_H", 64.2,
                f"model.h_cycles=1 model.l_cycles=2 {STABLEMAX3} {ROUTH_HURWITZ} {RECOMPUTED}",
            ),
            Row(
                "12", "N_H=2, N_L=4, StableMax3, RH unstable x and RH stable z_H", 77.9,
                f"model.h_cycles=2 model.l_cycles=4 {STABLEMAX3} {ROUTH_HURWITZ} {RECOMPUTED}",
            ),
            Row(
                "13", "N_H=2, N_L=4, StableMax3, N_accum=2", 80.3,
                f"model.h_cycles=2 model.l_cycles=4 {STABLEMAX3} rollout.accum_steps=2",
            ),
            Row(
                "14", "N_H=3, N_L=6, StableMax3, N_accum=2", 84.1,
                f"model.h_cycles=3 model.l_cycles=6 {STABLEMAX3} rollout.accum_steps=2",
            ),
            Row(
                "15", "N_H=2, N_L=4, StableMax3, N_accum=2, equilibrium in x and z_H", 80.5,
                f"model.h_cycles=2 model.l_cycles=4 {STABLEMAX3} rollout.accum_steps=2 {EQUILIBRIUM_XZ}",
            ),
            Row(
                "16", "N_H=3, N_L=6, StableMax3, N_accum=2, equilibrium in x and z_H", 84.9,
                f"model.h_cycles=3 model.l_cycles=6 {STABLEMAX3} rollout.accum_steps=2 {EQUILIBRIUM_XZ} {RECOMPUTED}",
            ),
        ),
        f"N_accum 1 where a row names none; one Hutchinson probe for the RH terms, over the whole puzzle; {SILENT}",
    ),
    PaperTable(
        "cmm-5", "CMM-512 NODE. D 512, B 256, AMP, N_super 16, N_H 2, N_L 4, StableMax3, equilibrium in x and z_H.",
        False, table_5_base,
        (
            Row("1", "N_accum=3, N_grad=1", 79.2, "rollout.accum_steps=3"),
            Row(
                "2", "N_accum=2, N_grad=1, all states of the H-module for gradient calculation", 74.6,
                f"model.gradient=all-cycles {RECOMPUTED}",
            ),
            Row("3", "N_accum=2, N_grad=1", 78.8),
            Row("4", "N_accum=2, N_grad=3", 81.8, "rollout.grad_steps=3"),
            Row("5", "N_accum=2, N_grad=4", 81.3, "rollout.grad_steps=4"),
            Row(
                "6", "N_accum=2, N_grad=3, repulsion for z_H", 84.1,
                "rollout.grad_steps=3 loss.weights.rep_z=1e3",
            ),
        ),
        f'the caption\'s "N_rmH=2, N_rmH=4" read as N_H 2, N_L 4; {SILENT}',
    ),
    PaperTable(
        "cmm-6", "CMM-512 NODE. D 512, AMP, N_super 16, N_accum 2, N_H 3, N_L 6, StableMax3, equilibrium, repulsion.",
        False, table_6_base,
        (
            Row(
                "1", "B=256, N_grad=3, without repulsion for x", 88.0,
                "rollout.grad_steps=3 loss.weights.rep_x=0",
            ),
            Row("2", "B=128, N_grad=6", 89.9, "training.batch_size=128 rollout.grad_steps=6"),
            Row("3", "B=256, N_grad=3, tanh", 79.4, f"rollout.grad_steps=3 {TANH}"),
            Row("4", "B=256, N_grad=3", 90.1, "rollout.grad_steps=3"),
            Row("5", "B=384, N_grad=3", 89.9, "training.batch_size=384 rollout.grad_steps=3"),
            Row("6", "B=250, N_grad=4", 90.5, "training.batch_size=250 rollout.grad_steps=4"),
            Row("7", "B=500, N_grad=2", 90.2, "training.batch_size=500 rollout.grad_steps=2"),
            Row(
                "8", "B=250, N_grad=4, StableMax5", 90.5,
                "training.batch_size=250 rollout.grad_steps=4 loss.likelihood=stablemax5",
            ),
            Row(
                "9", "B=250, N_grad=4, StableMax", 89.9,
                "training.batch_size=250 rollout.grad_steps=4 loss.likelihood=stablemax",
            ),
            Row(
                "10", "B=250, N_grad=4, identical transformer layers", 89.9,
                f"training.batch_size=250 rollout.grad_steps=4 {IDENTICAL}", "2.5M",
            ),
            Row(
                "11", "B=250, N_grad=4, D=768, identical transformer layers", 88.1,
                f"training.batch_size=250 rollout.grad_steps=4 model.hidden_size=768 {IDENTICAL}",
            ),
            Row(
                "12", "B=250, N_grad=4, learning rate 3e-4, without equilibrium in x", 75.2,
                "training.batch_size=250 rollout.grad_steps=4 optimizer.lr=3e-4 loss.weights.equil_x=0",
            ),
            Row(
                "13", "B=250, N_grad=4, learning rate 6e-5, without equilibrium in x", 91.5,
                "training.batch_size=250 rollout.grad_steps=4 optimizer.lr=6e-5 loss.weights.equil_x=0",
            ),
            Row(
                "14", "B=250, N_grad=4, without equilibrium in x, exponential decay 1e-4 to 5e-5 at 30000 epochs, "
                "3e-5 from 30000 to 50000 epochs", 91.6,
                "training.batch_size=250 rollout.grad_steps=4 loss.weights.equil_x=0 "
                "optimizer.schedule.kind=exponential optimizer.schedule.min_ratio=0.5 optimizer.schedule.end=30000 "
                "optimizer.schedule.after=0.3 optimizer.schedule.unit=epoch",
            ),
        ),
        SILENT,
    ),
)  # fmt: skip
