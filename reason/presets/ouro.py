"""Ouro's exit gate on addition: stage I, stage II, upcycling (docs/math.md §11).

Ouro trains 1.4B (24 layers of D 2048) on text; its weights and data are not part of this project, so all rows train on
4-digit addition (ours), the small ones, one layer of D 64, on 3-digit addition.
"""

from __future__ import annotations

import inspect

from reason.config.overrides import Changes, derive
from reason.config.schema import Config
from reason.presets.bases import ADDITION_3, ADDITION_4
from reason.presets.blindspot import base_44m, small_base
from reason.presets.tables import PaperTable, Row

STAGE_1: Changes = {
    "model.expansion": 2.75,
    "model.norm_placement": "pre-sandwich",
    "model.inter_loop_norm": True,
    "model.gate": "position",
    "model.dropout": 0.0,
    "rollout.loops.supervision": "per-loop",
    "loss.weights.lm": 0,
    "loss.weights.exit": 1,
    "loss.weights.exit_entropy": 0.1,
}
STAGE_2: Changes = {
    "training.only": "gate",
    "optimizer.lr": 1e-3,
    "optimizer.weight_decay": 0,
    "loss.weights.exit": 0,
    "loss.weights.exit_entropy": 0,
    "loss.weights.exit_gate": 1,
    "loss.schedules": {},
}


def stage_1() -> Config:
    """T = 4, sandwich RMSNorm, SwiGLU of 5632, RMSNorm between loops; β 0.1, 0.05 from half way on.

    Where β falls is ours. Learned positions, AdamW and the number of steps are those of blindspot-44m (ours).
    """
    size = {"model.num_layers": 24, "model.hidden_size": 2048, "model.num_heads": 16}
    return derive(base_44m(), STAGE_1 | size | _halved_from(10_000))


def small_stage_1() -> Config:
    """As ouro-stage-1 on the base of blindspot-small, but for 1,000 steps and from N(0, 0.02²) (ours)."""
    longer = {
        "model.init_std": 0.02,
        "training.steps": 1000,
        "training.checkpoint_every": 500,
        "optimizer.schedule.warmup_steps": 100,
        "optimizer.schedule.start": 600,
    }
    return derive(small_base(), STAGE_1 | longer | _halved_from(500))


def _halved_from(step: int) -> Changes:
    return {"loss.schedules": {"exit_entropy": {"kind": "piecewise", "points": ((step, 0.5),)}}}


def _rows(stage_1: str, run: str, steps: int, layers: int) -> tuple[Row, ...]:
    return (
        Row("stage-1", f"{stage_1}: loss expected under the exit gate − β·entropy"),
        Row(
            "stage-2",
            "stage II: the gate alone learns from what each loop gained; all else is frozen",
            changes={"init_from": run, "training.steps": steps} | STAGE_2,
            ours=f"k 50 and γ 0.005 are Ouro's; {steps:,} steps, a fifth of stage I's, and learning rate 1e-3 ours. "
            "init_from names stage I's run.",
        ),
        Row(
            "8-loops",
            "the initial experiments: as stage I, with T = 8",
            changes={"rollout.loops.count": 8},
            ours="that β falls as in stage I.",
        ),
        Row(
            "reduced",
            "loops reduced from 8 to 4, which ended the loss spikes: stage I from the weights of ouro-8-loops",
            changes={"init_from": run.replace("stage-1", "8-loops")},
            ours="that the weights are kept. init_from names that run.",
        ),
        Row(
            "upcycled",
            f"upcycling: the stack of {layers // 2} grown to {layers} by duplication, and trained on",
            changes={"init_from": run, "init_layers": "cycle", "model.num_layers": layers},
            ours="the order, 1 … L 1 … L. init_from names stage I's run.",
        ),
    )


DEPARTURE = (
    "Addition in place of text; the norm between loops has a gain of its own beside the readout's, and stands before "
    "the first loop too."
)
TABLES = (
    PaperTable(
        name="ouro",
        paper="Ouro",
        title="Ouro's stages at 1.4B. No figure is claimed on addition.",
        base=stage_1,
        shape=ADDITION_4,
        rows=_rows("stage I at 1.4B", "runs/ouro-stage-1-1", 4000, 48),
        inherited=inspect.getdoc(stage_1) or "",
        departure=DEPARTURE,
    ),
    PaperTable(
        name="ouro-small",
        paper="Ouro",
        title="Ouro's stages, one layer of D 64 on 3-digit addition: minutes on a CPU.",
        base=small_stage_1,
        shape=ADDITION_3,
        rows=_rows("stage I, one layer of D 64", "runs/ouro-small-stage-1-1", 200, 2),
        inherited=inspect.getdoc(small_stage_1) or "",
        departure=DEPARTURE,
    ),
)
