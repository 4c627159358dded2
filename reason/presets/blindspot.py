"""The readout blind spot on addition: a 2×2 and six controls as one base and its differences (docs/math.md §14).

The paper trains 44M (8 layers, D 512) and 129M (12 layers, D 768) on WikiText-103, which this project does not have:
all rows train on 4-digit addition instead (ours), the small ones, one layer of D 64, on 3-digit addition.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

from reason.config.overrides import Changes, derive, leaves
from reason.config.schema import Config
from reason.models.base import Shape
from reason.presets.bases import ADDITION_3, ADDITION_4, LOOPED, SUMS_3, SUMS_4
from reason.presets.tables import Departure, PaperTable, Row


def base_44m() -> Config:
    """Pre-norm RMSNorm/SwiGLU, K = 4, no inter-loop norm; AdamW 3e-4, weight decay 0.01, clip 1, dropout 0.1.

    betas (0.9, 0.999), a constant rate and states in float32 under autocast are the code's. 20,000 steps are ours (the
    paper: 4 epochs of WikiText-103), and N(0, 0.02²) for every weight (the code: torch's own, embeddings from N(0, 1)).
    """
    return derive(
        Config(),
        SUMS_4
        | LOOPED
        | {
            "model.num_layers": 8,
            "model.expansion": 4.0,
            "model.block": "llama",
            "model.norm_placement": "pre",
            "model.norm": "rmsnorm",
            "rollout.loops.count": 4,
            "loss.likelihood": "softmax",
            "loss.reduction": "token",
            "optimizer.kind": "adamw",
            "optimizer.lr": 3e-4,
            "optimizer.betas": (0.9, 0.999),
            "optimizer.weight_decay": 0.01,
            "optimizer.grad_clip": 1.0,
            "ema.decay": None,
            "training.precision": "amp",
            "training.steps": 20_000,
            "training.batch_size": 64,
            "training.log_every": 100,
            "training.checkpoint_every": 2000,
        },
    )


def base_129m() -> Config:
    """As the 44M model, with 12 layers of D 768 and batch 32."""
    return derive(
        base_44m(),
        {"model.num_layers": 12, "model.hidden_size": 768, "model.num_heads": 12, "training.batch_size": 32},
    )


def small_base() -> Config:
    """One layer of D 64 on 3-digit addition, 500 steps of batch 64: some twenty seconds of one core.

    No dropout; lr 3e-3 after 50 steps, falling to a tenth from step 300 on; float32, since bfloat16 would round away
    small updates of a large state; initial weights N(0, 0.1²): from 0.02 a raw readout, whose first logits are then all
    but 0, had not learned carries after 1,600 steps (all ours).
    """
    return derive(
        base_44m(),
        SUMS_3
        | {
            "model.num_layers": 1,
            "model.hidden_size": 64,
            "model.num_heads": 4,
            "model.dropout": 0.0,
            "model.init_std": 0.1,
            "optimizer.lr": 3e-3,
            "optimizer.schedule.kind": "cosine",
            "optimizer.schedule.warmup_steps": 50,
            "optimizer.schedule.start": 300,
            "optimizer.schedule.min_ratio": 0.1,
            "training.steps": 500,
            "training.precision": "fp32",
            "training.log_every": 50,
            "training.checkpoint_every": 250,
        },
    )


PER_LOOP: Changes = {"rollout.loops.supervision": "per-loop"}
ROWS = (
    Row("terminal-norm", "terminal loss, normalised readout", "‖h_K‖ 5,674 at 44M, 5,997 at 129M"),
    Row("terminal-raw", "terminal loss, raw readout", "‖h_K‖ 15 at 44M, 24 at 129M", {"model.readout": "raw"}),
    Row("per-loop-norm", "loss at every loop, normalised readouts", "‖h_K‖ 39,207 at 44M, 56,051 at 129M", PER_LOOP),
    Row(
        "per-loop-raw",
        "loss at every loop, raw readouts",
        "‖h_K‖ 44 at 44M, 77 at 129M",
        PER_LOOP | {"model.readout": "raw"},
    ),
    Row(
        "final-only",
        "loss at every loop, only the last readout normalised",
        "‖h_K‖ 57 at 44M, 83 at 129M",
        PER_LOOP | {"model.readout": "final-only", "model.final_from": 4},
    ),
    Row(
        "penalty",
        "loss at every loop, normalised readouts, norm penalty 0.01",
        "‖h_K‖ 17 at 44M, 22 at 129M",
        PER_LOOP | {"loss.weights.norm_penalty": 0.01},
    ),
    Row(
        "terminal-penalty",
        "terminal loss, normalised readout, norm penalty 0.01",
        "‖h_K‖ 21 at 44M, 27 at 129M",
        {"loss.weights.norm_penalty": 0.01},
    ),
    Row(
        "exit-weighted",
        "losses weighted by an exit gate, β 0.1, normalised readouts",
        "‖h_K‖ 6,470 at 44M, 4,710 at 129M",
        PER_LOOP
        | {
            "model.gate": "position",
            "loss.weights.lm": 0,
            "loss.weights.exit": 1,
            "loss.weights.exit_entropy": 0.1,
        },
    ),
    Row(
        "damping",
        "terminal loss, normalised readout, the state times a learned γ < 1 before every loop",
        "‖h_K‖ 2,432 at 44M, 2,973 at 129M",
        {"model.damping": True},
    ),
    Row(
        "inter-loop-norm",
        "loss at every loop, normalised readouts, the state normalised between loops",
        "effective, no figure",
        PER_LOOP | {"model.inter_loop_norm": True},
    ),
)


DEPARTURES: tuple[Departure, ...] = (
    (
        lambda config: leaves(config.model_dump())["model.damping"],
        "γ stands before every loop, the first too; the paper damps between loops.",
    ),
    (
        lambda config: leaves(config.model_dump())["model.inter_loop_norm"],
        "The norm stands before every loop, the first too; the paper normalises between loops, and names no loss here.",
    ),
    (
        lambda config: leaves(config.model_dump())["model.gate"] != "none",
        "The gate reads the normalised readout, the code's the raw state; β 0.1 is the code's default.",
    ),
)


def _table(size: str, base: Callable[[], Config], shape: Shape, note: Callable[[], Config] = base_44m) -> PaperTable:
    return PaperTable(
        name=f"blindspot-{size}",
        paper="Blind spot",
        title=f"Readout, supervision and six controls, {size}.",
        base=base,
        shape=shape,
        rows=ROWS,
        inherited=inspect.getdoc(note) or "",
        departure="Addition in place of WikiText-103.",
        departures=DEPARTURES,
    )


TABLES = (
    _table("44m", base_44m, ADDITION_4),
    _table("129m", base_129m, ADDITION_4),
    _table("small", small_base, ADDITION_3, small_base),
)
