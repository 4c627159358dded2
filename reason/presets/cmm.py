"""CMM, tables 1 to 6: HRM and TRM as the authors ran them again, and CMM as an ODE at D 512 (docs/math.md §7)."""

from __future__ import annotations

from collections.abc import Callable

from reason.config.overrides import Changes, derive, leaves
from reason.config.schema import Config
from reason.presets.authors import OPTIMIZER, hrm_sudoku
from reason.presets.bases import MAZE_30, MAZE_HARD, SUDOKU_9, SUDOKU_EXTREME
from reason.presets.tables import Departure, PaperTable, Row

SYMBOLS = {
    "B": "training.batch_size",
    "D": "model.hidden_size",
    "N_H": "model.h_cycles",
    "N_L": "model.l_cycles",
    "N_super": "rollout.supervision_steps",
    "N_accum": "rollout.accum_steps",
    "N_grad": "rollout.grad_steps",
    "lr": "optimizer.lr",
    "eps": "optimizer.eps",
}


def symbols(**values: float) -> Changes:
    """The paper's symbols as settings: symbols(N_H=2) is {"model.h_cycles": 2}.

    N_accum brings the carry in which it has an effect: CMM §3.5 loops over one loader batch, as same-batch does (ours).
    """
    changes: Changes = {SYMBOLS[symbol]: value for symbol, value in values.items()}
    if "N_accum" in values:
        changes["rollout.carry"] = "same-batch" if values["N_accum"] > 1 else "persistent"
    return changes


EQUILIBRIUM_XZ: Changes = {"loss.weights.equil_x": 1, "loss.weights.equil_z": 1}
ROUTH_HURWITZ: Changes = {"loss.weights.rh_unstable_x": 10, "loss.weights.rh_stable_z": 1e4}
STABLEMAX3: Changes = {"loss.likelihood": "stablemax3"}
IDENTICAL: Changes = {"model.num_layers": 1, "model.repeats": 2}
TANH: Changes = {"model.activation": "tanh"}
ATTENTION: Changes = {"model.mixer": "attention", "model.positions": "rotary"}
DECAY: Changes = {
    "optimizer.schedule.kind": "exponential",
    "optimizer.schedule.min_ratio": 0.5,
    "optimizer.schedule.end": 30_000,
    "optimizer.schedule.after": 0.3,
    "optimizer.schedule.unit": "epoch",
}
OURS: Changes = {"training.precision": "amp", "optimizer.bias_correction": "inside"}
INPUT: Changes = {"model.initial": "input"}
UNSTATED = (
    "where a row states none, TRM's optimizer settings (lr 1e-4 after 2,000 warm-up steps, weight decay 1), its EMA of "
    "0.999 but for HRM, 50,000 epochs of 1,000 puzzles; carry persistent where N_accum is 1, same-batch where it is "
    "more (CMM §3.5 loops over one batch); AMP is autocast, to fp16 on a V100 or T4 and to bf16 where the hardware has "
    "it; Adam-atan2 with a = 1 and its bias corrected inside, as in the package that the paper cites; gradient "
    "checkpointing where training would not fit without."
)
DEPARTURE = "The puzzles are generated here, not the published ones."
AS_ADAM: Departure = (
    lambda config: config.optimizer.kind == "adam-atan2" and config.optimizer.eps is not None,
    '"epsilon of the optimizer Adam" is added to √v̂ inside atan2; the rows -adamw take it literally.',
)
EVERY_CALL = '"all states of the H-module" is read as a gradient through every call of both networks in every cycle.'


NODE = "the text after eq. 21 defines CMM-NODE with z_H(0) = x̂"
NSDE = "CMM §3.1 assumes z_H(0) = x̂ (eq. 21), and the definition of CMM-NSDE (eq. 47) names no initial state; x̂"
LITERAL_EPS: Departure = (
    lambda config: config.optimizer.kind == "adamw",
    'AdamW, though "all models were trained using the Adam-Atan2 optimizer" : it has the ε that the table states.',
)
AS_LISTED: Departure = (
    lambda config: config.rollout.accum_steps == config.rollout.supervision_steps > 1,
    "A row that halts takes its puzzle again (carry=same-batch); CMM §3.5 says that N_accum = N_super is HRM's and "
    "TRM's training, of whose listings rollout.carry=fresh is the reading.",
)


def from_buffers(other: str, text: str = NODE) -> Departure:
    """The initial state of TRM's code, where CMM's text has another, which the row `other` takes."""
    return (
        lambda config: leaves(config.model_dump())["model.initial"] == "buffer",
        f"z_H(0) and z_L(0) are fixed random buffers, as in TRM's code; {text}, which is the row {other}.",
    )


def cmm_table(
    number: int,
    title: str,
    base: Callable[[], Config],
    rows: tuple[Row, ...],
    ours: str = "",
    departures: tuple[Departure, ...] = (),
    maze: bool = False,
) -> PaperTable:
    """A table of the paper, every row trained for 50,000 epochs of 1,000 puzzles."""
    return PaperTable(
        name=f"cmm-{number}",
        paper=f"CMM table {number}",
        title=title,
        base=base,
        shape=MAZE_30 if maze else SUDOKU_9,
        rows=rows,
        inherited="the table's general features; what no row, table or text states is under Ours.",
        ours=f"{ours}; {UNSTATED}" if ours else UNSTATED,
        departure=DEPARTURE,
        departures=(*departures, LITERAL_EPS, AS_LISTED),
        measure=f"% exact on {'Maze-Hard' if maze else 'Sudoku-Extreme'}",
        epochs=50_000,
    )


def variant(label: str, features: str, changes: Changes) -> Row:
    """A row that the paper does not print: another reading of one that it does."""
    return Row(label, f"variant (ours): {features}", changes=changes, variant=True)


def common() -> Config:
    """What the tables share: D 512, MLP mixer, N_super 16, B 256, lr 1e-4 after 2,000 warm-up steps, EMA."""
    mlp = {"model.mixer": "mlp", "model.positions": "none"}
    return derive(Config(), SUDOKU_EXTREME | OPTIMIZER | mlp | OURS | symbols(B=256))


def hrm_again() -> Config:
    """HRM's structure, losses and halting on the common base."""
    return derive(hrm_sudoku(), OURS | symbols(B=256))


def trm_maze() -> Config:
    """TRM with attention on mazes, gradients accumulated."""
    return derive(common(), MAZE_HARD | ATTENTION | symbols(N_L=4, N_grad=10, B=128))


def table_3_base() -> Config:
    """N_accum = N_super."""
    return derive(common(), symbols(N_accum=16))


def equilibrium_base() -> Config:
    """Tables 5 and 6: StableMax3, equilibrium in x̂ and z_H, N_accum 2."""
    return derive(common(), STABLEMAX3 | EQUILIBRIUM_XZ | symbols(N_accum=2))


def table_5_base() -> Config:
    """Equilibrium, N_H 2 and N_L 4."""
    return derive(equilibrium_base(), symbols(N_H=2, N_L=4))


def table_6_base() -> Config:
    """Equilibrium and repulsion, N_H 3 and N_L 6."""
    repulsion: Changes = {"loss.weights.rep_x": 1e3, "loss.weights.rep_z": 1e3}
    return derive(equilibrium_base(), repulsion)


TABLES = (
    cmm_table(
        1, "HRM on Sudoku-Extreme, the authors' own run. D 512, AMP.", hrm_again,
        (Row("hrm", "HRM (our run), AMP", "45.9", parameters="27M"),),
        "batch and epochs are those of the CMM runs",
    ),
    cmm_table(
        1, "TRM on Sudoku-Extreme, the authors' own run. D 512, AMP, MLP mixer.", common,
        (Row("trm", "TRM (our run), AMP, MLP-mixer", "79.1", parameters="5M"),),
        "batch and epochs are those of the CMM runs",
    ),
    cmm_table(
        2, "TRM on Maze-Hard, the authors' own run. D 512, AMP.", trm_maze,
        (Row("trm", "TRM (our run), AMP (gradient accumulation on 10 segments)", "84.2", parameters="7M"),),
        "attention and N_L 4 as TRM's own maze setting, since the table names neither, and its batch of 128",
        maze=True,
    ),
    cmm_table(
        3, "TRM on Sudoku-Extreme. D 512, AMP, N_super 16, N_H 3, N_L 6, MLP mixer, N_accum = N_super.", table_3_base,
        (
            Row("1", "B=256", "69.6"),
            Row("2", "SiLU to tanh, B=256", "81.8", TANH),
            Row(
                "3", "SiLU to tanh, B=64, N_grad=4, all states of the H-module for gradient calculation", "56.8",
                TANH | symbols(B=64, N_grad=4) | {"model.gradient": "all-cycles"}, ours=EVERY_CALL,
            ),
        ),
    ),
    cmm_table(
        4, "CMM-512 NODE: N_H and N_L. D 512, AMP, N_super 16, N_grad 1, B 256, MLP mixer, StableMax.", common,
        (
            Row("1", "N_H=1, N_L=2, tanh", "58.9", symbols(N_H=1, N_L=2) | TANH),
            Row("2", "N_H=1, N_L=2", "63.8", symbols(N_H=1, N_L=2)),
            Row("3", "N_H=1, N_L=4", "68.9", symbols(N_H=1, N_L=4)),
            Row("4", "N_H=1, N_L=6", "68.7", symbols(N_H=1, N_L=6)),
            Row("5", "N_H=2, N_L=1", "64.6", symbols(N_H=2, N_L=1)),
            Row("6", "N_H=2, N_L=2", "70.5", symbols(N_H=2, N_L=2)),
            Row("7", "N_H=2, N_L=4", "75.3", symbols(N_H=2, N_L=4)),
            Row("8", "N_H=2, N_L=6", "76.4", symbols(N_H=2, N_L=6)),
            Row("9", "N_H=2, N_L=4, StableMax3", "78.3", symbols(N_H=2, N_L=4) | STABLEMAX3),
            Row("10", "N_H=2, N_L=4, StableMax3, tanh", "77.1", symbols(N_H=2, N_L=4) | STABLEMAX3 | TANH),
            Row(
                "11", "N_H=1, N_L=2, StableMax3, RH unstable x and RH stable z_H", "64.2",
                symbols(N_H=1, N_L=2) | STABLEMAX3 | ROUTH_HURWITZ,
            ),
            Row(
                "12", "N_H=2, N_L=4, StableMax3, RH unstable x and RH stable z_H", "77.9",
                symbols(N_H=2, N_L=4) | STABLEMAX3 | ROUTH_HURWITZ,
            ),
            Row("13", "N_H=2, N_L=4, StableMax3, N_accum=2", "80.3", symbols(N_H=2, N_L=4, N_accum=2) | STABLEMAX3),
            Row("14", "N_H=3, N_L=6, StableMax3, N_accum=2", "84.1", symbols(N_H=3, N_L=6, N_accum=2) | STABLEMAX3),
            Row(
                "15", "N_H=2, N_L=4, StableMax3, N_accum=2, equilibrium in x and z_H", "80.5",
                symbols(N_H=2, N_L=4, N_accum=2) | STABLEMAX3 | EQUILIBRIUM_XZ,
            ),
            Row(
                "16", "N_H=3, N_L=6, StableMax3, N_accum=2, equilibrium in x and z_H", "84.9",
                symbols(N_H=3, N_L=6, N_accum=2) | STABLEMAX3 | EQUILIBRIUM_XZ,
            ),
            variant(
                "16-input", "row 16 from z_H(0) = x̂",
                symbols(N_H=3, N_L=6, N_accum=2) | STABLEMAX3 | EQUILIBRIUM_XZ | INPUT,
            ),
        ),
        "N_accum 1 where a row names none; one Hutchinson probe for the RH terms, over the whole puzzle",
        (from_buffers("cmm-4-16-input"),),
    ),
    cmm_table(
        5, "CMM-512 NODE. D 512, B 256, AMP, N_super 16, N_H 2, N_L 4, StableMax3, equilibrium in x and z_H.",
        table_5_base,
        (
            Row("1", "N_accum=3, N_grad=1", "79.2", symbols(N_accum=3)),
            Row(
                "2", "N_accum=2, N_grad=1, all states of the H-module for gradient calculation", "74.6",
                {"model.gradient": "all-cycles"}, ours=EVERY_CALL,
            ),
            Row("3", "N_accum=2, N_grad=1", "78.8"),
            Row("4", "N_accum=2, N_grad=3", "81.8", symbols(N_grad=3)),
            Row("5", "N_accum=2, N_grad=4", "81.3", symbols(N_grad=4)),
            Row("6", "N_accum=2, N_grad=3, repulsion for z_H", "84.1", symbols(N_grad=3) | {"loss.weights.rep_z": 1e3}),
            variant(
                "6-input", "row 6 from z_H(0) = x̂", symbols(N_grad=3) | {"loss.weights.rep_z": 1e3} | INPUT,
            ),
        ),
        'the caption\'s "N_rmH=2, N_rmH=4" read as N_H 2, N_L 4',
        (from_buffers("cmm-5-6-input"),),
    ),
    cmm_table(
        6, "CMM-512 NODE. D 512, AMP, N_super 16, N_accum 2, N_H 3, N_L 6, StableMax3, equilibrium, repulsion.",
        table_6_base,
        (
            Row("1", "B=256, N_grad=3, without repulsion for x", "88.0", symbols(N_grad=3) | {"loss.weights.rep_x": 0}),
            Row("2", "B=128, N_grad=6", "89.9", symbols(B=128, N_grad=6)),
            Row("3", "B=256, N_grad=3, tanh", "79.4", symbols(N_grad=3) | TANH),
            Row("4", "B=256, N_grad=3", "90.1", symbols(N_grad=3)),
            Row("5", "B=384, N_grad=3", "89.9", symbols(B=384, N_grad=3)),
            Row("6", "B=250, N_grad=4", "90.5", symbols(B=250, N_grad=4)),
            Row("7", "B=500, N_grad=2", "90.2", symbols(B=500, N_grad=2)),
            Row(
                "8", "B=250, N_grad=4, StableMax5", "90.5",
                symbols(B=250, N_grad=4) | {"loss.likelihood": "stablemax5"},
            ),
            Row("9", "B=250, N_grad=4, StableMax", "89.9", symbols(B=250, N_grad=4) | {"loss.likelihood": "stablemax"}),
            Row(
                "10", "B=250, N_grad=4, identical transformer layers", "89.9",
                symbols(B=250, N_grad=4) | IDENTICAL, "2.5M",
            ),
            Row(
                "11", "B=250, N_grad=4, D=768, identical transformer layers", "88.1",
                symbols(B=250, N_grad=4, D=768) | IDENTICAL,
            ),
            Row(
                "12", "B=250, N_grad=4, learning rate 3e-4, without equilibrium in x", "75.2",
                symbols(B=250, N_grad=4, lr=3e-4) | {"loss.weights.equil_x": 0},
            ),
            Row(
                "13", "B=250, N_grad=4, learning rate 6e-5, without equilibrium in x", "91.5",
                symbols(B=250, N_grad=4, lr=6e-5) | {"loss.weights.equil_x": 0},
            ),
            Row(
                "14", "B=250, N_grad=4, without equilibrium in x, exponential decay 1e-4 to 5e-5 at 30000 epochs, "
                "3e-5 from 30000 to 50000 epochs", "91.6",
                symbols(B=250, N_grad=4) | {"loss.weights.equil_x": 0} | DECAY,
            ),
            variant(
                "14-input", "row 14 from z_H(0) = x̂",
                symbols(B=250, N_grad=4) | {"loss.weights.equil_x": 0} | DECAY | INPUT,
            ),
        ),
        departures=(from_buffers("cmm-6-14-input"),),
    ),
)  # fmt: skip
